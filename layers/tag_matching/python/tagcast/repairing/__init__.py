"""What makes good for accidents: `relay` repeats from the table's stream, `sweep` looks for all that is overdue.

The sweep's parts: `unsent` (the queue did not take it), `overdue` (a lane whose redelivery died), `expiry` (past its
life), `search` (nobody else knows of it).
"""
