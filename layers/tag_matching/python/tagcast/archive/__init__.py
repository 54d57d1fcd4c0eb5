"""What the archive is told: a record of every change of a message, an entry, a lane, a subscription."""
