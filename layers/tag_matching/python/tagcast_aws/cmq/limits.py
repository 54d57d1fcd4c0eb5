"""The limits of CMQ's API that are narrower than the service's own."""

from __future__ import annotations

FORM_BYTES_MAX = 1024 * 1024
"""The maximum bytes of a request, except a batch. The limit of a batch counts the decoded bodies."""
FORM_FIELDS_MAX = 200
NONCE_DIGITS_MAX = 19
TIMESTAMP_DIGITS_MAX = 11

BODY_BYTES_MIN, BODY_BYTES_MAX, BODY_BYTES_ASKED_MAX = 1024, 64 * 1024, 1024 * 1024
"""The bounds of a topic's maximum body size, and the largest size that a request may name, the default of Java clients.

A request that names more than the second number gets the second number.
"""
BATCH_MAX, BATCH_BYTES_MAX = 16, 1024 * 1024
TAGS_MAX, TAG_LENGTH_MAX = 5, 16
BINDING_KEYS_MAX = 5
SUBSCRIPTIONS_MAX = 500
URL_LENGTH_MAX = 500

TOPICS_PAGE_MAX, SUBSCRIPTIONS_PAGE_MAX, PAGE_DEFAULT = 50, 100, 20
OFFSET_MAX = 1_000_000
INTEGER_DIGITS_MAX = 10
