"""The delivery protocol.

- `publishing` accepts messages, and `queueing` builds the queue entries.
- `fan_out` completes the first round of a batch. `late_result` writes the results of independent deliveries for which
  the batch did not wait.
- `redelivery` works on one lane: it claims the lane by `lease`, attempts the head by `lane_run`, and plans the next
  attempt. `cancelling` and `filling` empty and fill a backlog.
- `ending` ends single deliveries after their first round; `lease` ends several of one lane in a transaction.
- `dead_letter` publishes letters.
"""
