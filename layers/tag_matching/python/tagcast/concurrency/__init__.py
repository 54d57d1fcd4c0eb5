"""Concurrent work, and retries on contended rows."""
