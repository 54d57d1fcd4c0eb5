"""The engine that emulates AWS locally, and its guards: identities, permissions, limits."""
