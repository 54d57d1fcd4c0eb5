"""One attempt and what follows from it.

`envelope` says what is sent and `webhook_signature` signs it; `verdicts` asks filter functions first; `push_slots` and
`bytes_in_flight` say who may go next; `attempts` pushes; `retry` knows the delay after a failure.
"""
