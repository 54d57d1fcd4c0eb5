"""The functions, run like Lambda: worker processes called through the runtime API."""
