"""The process: clock, dice, threads, log and metrics, the settings of its deployment."""
