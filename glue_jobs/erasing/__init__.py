"""What must be forgotten: the contents of records, by request or by age, in every place that has them."""
