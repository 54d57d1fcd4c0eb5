"""The console: web pages, rendered on this machine from responses of the HTTP API."""
