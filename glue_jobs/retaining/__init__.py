"""Erasing by age, for the job `retain`."""
