"""Subscriptions: what a subscriber chooses, in and out, and the lane that comes of it."""
