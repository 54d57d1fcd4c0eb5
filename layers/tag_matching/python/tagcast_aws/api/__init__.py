"""The HTTP API: one module or folder per resource, with its routes, request bodies and answers.

- `limits`: the limits of requests and answers;
- `http`: parts that all resources share, from the event of API Gateway to problem details;
- `publishing`, `pulling`, `messages`, `tail`, `topics`, `filters`, `subscriptions`, `shadows`, `members`,
  `hosts`: the resources;
- `routes`: the route tables, and the routes of the service itself.
"""
