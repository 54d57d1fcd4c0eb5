"""Turns a run of deliveries into requests, and each outcome into its consequence.

`engine` passes every run through the gates and pushes the rest; it consults `circuit`, `rate_limit` and `push_slots`.
`retry` computes the delay after a failure.
`envelope` builds the request, `batch_form` that of several messages, `webhook_signature` signs it;
`response_text` shortens a response for storage.
"""
