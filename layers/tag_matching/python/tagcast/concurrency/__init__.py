"""Concurrent work, in which one failure stops nothing or everything, and contended rows."""
