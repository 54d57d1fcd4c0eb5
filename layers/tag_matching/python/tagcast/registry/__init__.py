"""Topics, subscriptions and shadows.

`directory` caches a topic while its version stays the same; `shadowing` evaluates candidate filters.
"""
