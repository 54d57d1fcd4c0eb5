"""The console: pages for people, made on this machine from what the client is told by the API."""
