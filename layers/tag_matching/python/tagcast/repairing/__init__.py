"""Repairs after crashes: `relay` repeats sends that it sees in the table's stream, `sweep` finds overdue work.

The parts of the sweep are `relay` (messages that the queue did not accept), `overdue` (lanes whose redelivery died, and
metrics of backlogs), `expiry` (expired deliveries), `search` (pending messages that no other part finds), and
`removals` (silent groups, queues without groups, and previous secrets).
"""
