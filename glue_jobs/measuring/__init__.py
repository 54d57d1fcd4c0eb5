"""Counts over records: delivery figures, and filters over messages."""
