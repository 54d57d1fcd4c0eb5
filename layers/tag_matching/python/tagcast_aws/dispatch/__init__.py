"""Adapters of other services: the queues, the workflow, the archive, the event bus."""
