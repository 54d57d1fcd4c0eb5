"""The delivery protocol.

`publishing` accepts messages, and `queueing` builds the queue entries.
`fan_out` completes the first round of a batch.
`redelivery` works on one lane under a lease: it retries, adds older messages for a new group, empties a removed one.
`ending` is the only code that makes entries terminal.
"""
