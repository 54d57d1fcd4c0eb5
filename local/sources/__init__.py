"""What invokes functions without being asked: queues, streams, schedules, the time to live."""
