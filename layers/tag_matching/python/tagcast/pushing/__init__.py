"""One attempt and what follows from it.

`envelope` says what is sent, `batch_form` and `batch_answer` what of several messages at once; `webhook_signature`
signs it; `verdicts` asks filter functions first; `push_slots` and `bytes_in_flight` say who may go next; `course` says
what goes together and in which order, and `attempts` pushes; `retry` knows the delay after a failure.
"""
