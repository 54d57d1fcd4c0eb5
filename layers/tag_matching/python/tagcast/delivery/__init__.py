"""The protocol of delivery.

`publishing` accepts messages, with `idempotency`, and `queueing` makes the entries of the queue.
`fan_out` brings the first round of a batch to its end; `subscription_round` is that of one subscription.
`redelivery` works on a lane under a `lane_lease`: `retrying` attempts what stands first, `filling` adds older messages
for a new group, `emptying` ends the queue of a removed one.
`ending` is the only code that makes entries terminal, whoever calls it.
"""
