"""The delivery protocol.

- `publishing` accepts messages, and `queueing` builds the queue entries.
- `fan_out` completes the first round of a batch.
- `redelivery` works on one lane under a lease: it retries deliveries, adds older messages to the backlog of a new
  group, and empties the backlog of a deleted subscription.
- `ending` makes entries terminal after their first round; `lease` ends several entries of one lane in a transaction.
"""
