"""What the records count: figures of deliveries, and sets of filters over messages."""
