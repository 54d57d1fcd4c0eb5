"""Secrets of subscriptions: encrypted at rest, decrypted for pushes, cached for a short time."""
