"""Where partitions are worked on: threads of this computer, Dask workers, Spark executors."""
