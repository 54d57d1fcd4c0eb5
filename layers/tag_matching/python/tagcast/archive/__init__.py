"""The archive's records: one for every change of a message, an entry, a lane or a subscription."""
