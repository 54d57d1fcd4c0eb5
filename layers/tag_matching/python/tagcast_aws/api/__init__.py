"""The HTTP API: one room per resource, with its routes, the bodies it reads and the answers it gives.

- `limits`: how large anything may be that a caller sends;
- `http`: what all resources share, from the event of API Gateway to the problem that a caller reads;
- `publishing`, `messages`, `topics`, `filters`, `subscriptions`, `shadows`: the resources;
- `routes`: which function serves which of them.
"""
