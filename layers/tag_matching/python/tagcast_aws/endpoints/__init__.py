"""The ways to the endpoints of subscribers: one module per protocol, chosen in :mod:`.pusher`."""
