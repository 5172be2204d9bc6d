"""The paper, run: one file for each figure or table, on the package's public interface.

``fairmargin reproduce`` (or :func:`fairmargin.experiments.run.reproduce`) does all of them. Work is cut into small
units (:mod:`fairmargin.experiments._work`), each written whole or not at all, so that a run that was stopped goes on
where it was.
"""
