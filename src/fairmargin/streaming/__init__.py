"""The analyst's half on data larger than memory: train, decide and audit in passes over partitions.

==============  =============================================================================================
``cells``       people counted by combinations of values, exactly, in one pass
``regrouping``  a source with sensitive columns as named groups, and with people held out
``question``    one question put to a source: target, groups and split, as :func:`fairmargin.tables.prepare` does
``jobs``        one classifier trained, with the report of a table in memory
``deciding``    a model applied to a source, its decisions written partition by partition
``auditing``    what an audit needs of a source, as a small table of counts
==============  =============================================================================================

Nothing here depends on the number of rows but the time.
"""
