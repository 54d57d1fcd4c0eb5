"""Publishing: one message, a batch, and messages of the archive again."""
