"""Publishing: one message, a batch, and replays of archived messages."""
