"""Erasure of record contents, by request or by age, in every place that has them."""
