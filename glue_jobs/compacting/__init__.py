"""Sorts the records of raw files, and merges them into each day's Parquet files. Both steps work on Arrow tables."""
