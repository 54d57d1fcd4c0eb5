"""Concurrent work, in isolated pieces or ending together, and contended rows."""
