"""The HTTP server in front of the functions. Locally it replaces API Gateway."""
