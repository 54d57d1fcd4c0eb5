"""Repairs after crashes: `relay` repeats from the table's stream, `sweep` finds overdue work.

Parts of the sweep: `relay` (messages that the queue did not accept), `overdue` (lanes whose redelivery died, and
backlogs), `expiry`, `search` (messages unknown to all others), `removals` (remains of groups and secrets).
"""
