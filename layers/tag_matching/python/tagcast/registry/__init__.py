"""Topics, subscriptions and shadows: who is subscribed to what.

`directory` is what a process knows of a topic while its version stays the same; `shadowing` watches candidates.
"""
