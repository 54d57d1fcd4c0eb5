"""The twin: the shipped handlers on the simulated AWS, in virtual time, for speed and cost (docs/speed-and-cost.md)."""
