"""Tables in partitions: data larger than memory, on one computer or on a cluster.

A *source* says where the rows are, an *engine* runs a function on every partition and merges the results in partition
order. What is computed on a partition is a numerical pass; neither sources nor engines know about it.
"""
