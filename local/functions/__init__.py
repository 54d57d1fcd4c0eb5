"""Runs the functions as Lambda does: in worker processes that get their events from a Runtime API."""
