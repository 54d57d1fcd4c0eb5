"""Sorts the records of raw files, and merges them into the files of a day, all in Arrow."""
