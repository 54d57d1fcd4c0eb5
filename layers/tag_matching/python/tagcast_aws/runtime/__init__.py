"""The process: clock, randomness, threads, log and metrics, the settings of its deployment."""
