"""Subscriptions: their settings in requests and answers, and their lanes."""
