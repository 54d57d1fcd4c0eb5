"""Counts for the jobs: deliveries and latencies of a report, and matches of filters."""
