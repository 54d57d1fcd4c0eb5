"""The functions as Lambda runs them: a worker process each, called through the runtime API."""
