"""From a run of deliveries to requests, and what follows from each outcome.

`engine` is the line of gates that every run passes: expired, verified, `circuit`, `rate_limit`, filter function, keys.
`ordered_sender` says what goes into one request and in which order, `push_slots` who may go next; `attempts` pushes.
`envelope` says what is sent, `batch_form` and `batch_answer` what of several messages at once; `cmq_form`, `json_text`
and `push_headers` say how, and `webhook_signature` signs it. `retry` knows the delay after a failure, `response_text`
what is remembered of an answer.
"""
