"""Turns a run of deliveries into requests, and each outcome into an end or a next attempt.

`engine` passes every run through the gates and pushes the deliveries that pass. It uses `circuit`, `rate_limit` and
`push_slots`. `retry_delay` computes the delay after a failure. `envelope` builds the request of one message, and
`batch_form` the request of several messages; `webhook_signature` signs both with the secret that `tagcast.sealing`
decrypted. `response_text` shortens a response for storage.
"""
