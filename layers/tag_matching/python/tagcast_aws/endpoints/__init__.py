"""The ways to what belongs to subscribers: one module per protocol, chosen in :mod:`.pusher`; filter functions."""
