"""The protocol of delivery.

`publishing` accepts messages, and `queueing` makes the entries of the queue.
`fan_out` brings the first round of a batch to its end.
`redelivery` works on a lane under a `lane_lease`; `filling` adds older messages for a new group.
`ending` is the only code that makes entries terminal.
"""
