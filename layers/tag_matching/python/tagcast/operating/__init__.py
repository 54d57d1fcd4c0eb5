"""What people ask and order: `messages`, `explaining`, `lanes`, `urgency`, `tailing`, `verification`.

`subscription_names` keeps the names that these show; `signed_requests` takes each request of CMQ once.
"""
