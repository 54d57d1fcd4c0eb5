"""What the records prove: entries, attempts, order and matching of each delivery, and their Merkle root."""
