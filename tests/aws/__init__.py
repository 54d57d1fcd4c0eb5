"""A simulated AWS; its limits are in one table."""
