"""Adapters of filter functions, and of subscribers' endpoints: one module per protocol, selected in :mod:`.pusher`."""
