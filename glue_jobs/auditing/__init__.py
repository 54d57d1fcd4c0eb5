"""The checks of the audit: ends, attempts, order and matches of deliveries; and the Merkle roots of all records."""
