"""Erasure of record contents in every place that has them."""
