"""The command line `tagcast`: every route of the HTTP API, for people and for pipes."""
