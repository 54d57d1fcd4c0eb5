"""Use cases of operators: `messages`, `explaining`, `lanes`, `urgency`, `tailing`, `verification`.

`subscription_names` caches the names that these show; `signed_requests` accepts each request of CMQ once.
"""
