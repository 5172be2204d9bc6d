"""Where tables in partitions come from: Parquet files, Dask frames, Spark frames."""
