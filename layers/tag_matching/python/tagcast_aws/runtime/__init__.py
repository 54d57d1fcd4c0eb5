"""What a process has of itself: clock, dice, threads, log and metrics, the settings of its deployment."""
