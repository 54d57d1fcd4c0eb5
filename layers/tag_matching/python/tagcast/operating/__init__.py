"""Use cases of operators.

- `messages`, `history` and `explaining` show messages.
- `lanes`, `lane_changes` and `urgent_lanes` show and change lanes.
- `tailing` shows events, and `verification` verifies endpoints.
- `subscription_names` caches names; `signed_requests` accepts each request of CMQ once.
"""
