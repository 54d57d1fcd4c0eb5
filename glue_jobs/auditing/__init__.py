"""The checks of the audit: entries, attempts, order and matching of each delivery, and their Merkle root."""
