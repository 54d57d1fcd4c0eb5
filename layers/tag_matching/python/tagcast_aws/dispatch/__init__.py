"""Adapters of other services: the queue, the workflow, the archive, the event bus."""
