"""Event sources of the functions: queues, streams, schedules, the time to live."""
