"""From a run of deliveries to requests, and what follows from each outcome.

`engine` is the line of gates that every run passes, and pushes what is left; `circuit`, `rate_limit` and `push_slots`
are asked on the way. `retry` knows the delay after a failure.
`envelope` says what is sent, `batch_form` what of several messages at once, `webhook_signature` signs it;
`response_text` is what is remembered of an answer.
"""
