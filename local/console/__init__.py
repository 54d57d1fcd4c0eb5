"""The console: web pages made on this machine from the answers of the API."""
