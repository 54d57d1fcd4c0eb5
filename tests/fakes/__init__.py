"""Ports in memory. Each passes the contract test of the real thing."""
