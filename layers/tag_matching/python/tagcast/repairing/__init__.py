"""What makes good for accidents: `relay` repeats from the table's stream, `sweep` looks for all that is overdue.

The sweep's parts: `relay` (what the queue did not take), `overdue` (lanes whose redelivery died, and what lanes owe),
`expiry` (past its life), `search` (nobody else knows of it), `removals` (what is left of groups and secrets).
"""
