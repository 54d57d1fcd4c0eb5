"""Turns raw files into sorted runs of records, and runs into the files of a day, all in Arrow."""
