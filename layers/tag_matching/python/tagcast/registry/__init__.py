"""Topics, subscriptions and shadows. `directory` caches topics; `shadowing` evaluates candidate filters."""
