"""Invokes the functions for events of queues, streams and schedules. Also deletes expired rows."""
