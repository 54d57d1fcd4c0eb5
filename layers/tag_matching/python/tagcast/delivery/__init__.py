"""The delivery protocol.

- `publishing` accepts messages, and `queueing` builds the queue entries.
- `fan_out` completes the first round of a batch.
- `redelivery` works on one lane under a lease. It retries deliveries, and fills or empties a backlog.
- `ending` ends single deliveries after their first round; `lease` ends several of one lane in a transaction.
"""
