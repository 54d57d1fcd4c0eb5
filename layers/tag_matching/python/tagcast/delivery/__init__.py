"""The protocol of delivery.

`publishing` accepts messages, and `queueing` makes the entries of the queue.
`fan_out` brings the first round of a batch to its end.
`redelivery` works on one lane under a lease: it retries, adds older messages for a new group, empties a removed one.
`ending` is the only code that makes entries terminal.
"""
