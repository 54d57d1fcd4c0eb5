"""Adapters of subscribers' endpoints: one module per protocol, selected in :mod:`.pusher`; filter functions."""
