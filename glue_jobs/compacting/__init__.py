"""Raw files become sorted runs of records, and those the files of a day, without a row leaving Arrow."""
