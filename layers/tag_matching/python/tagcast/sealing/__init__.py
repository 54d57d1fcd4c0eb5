"""Secrets of subscriptions: encrypted when they are stored, opened for who pushes, known for a short while."""
