"""The limits of the HTTP API.

The limits of settings are in `tagcast.topic_settings`, `tagcast.subscription_settings` and
`tagcast.pushing.retry_delay`.
"""

from __future__ import annotations

from tagcast.pulling.handles import HIDDEN_S_MAX
from tagcast.setting import NAME as NAME

# Patterns of whole texts. The API document shows the same patterns that the code checks.
MESSAGE_ID = r"^[0-9]{20}$"

REQUEST_BYTES_MAX = 4 * 1024 * 1024
BATCH_MAX = 100
FAULTS_MAX = 100
FAULT_TEXT_LENGTH_MAX, ERRORS_BYTES_MAX = 1_100, 20_000
"""The maximum characters of a detail or pointer, and the size of ``errors`` after which a problem lists no more.

So the problems of 100 items fit into an answer: Lambda's limit is 6 MB.
"""

PAGE_DEFAULT, PAGE_MAX = 50, 100
PAGE_BYTES_MAX = 4_000_000
"""The maximum size of a page of messages or filters in a function's answer; Lambda's limit is 6 MB."""
CURSOR_LENGTH_MAX = 2_048
CURSOR = r"^[A-Za-z0-9_-]+$"
IDEMPOTENCY_KEY = r"^[\x20-\x7e]{1,128}$"
ENTITY_TAGS = r'^(W/)?"[\x21\x23-\x7e]*"(\s*,\s*(W/)?"[\x21\x23-\x7e]*")*$'

TAGS_MAX, TAG_LENGTH_MAX = 10, 64
# Equal tags count as one tag. This limit bounds the length of a list with repetitions.
TAGS_SENT_MAX = 100

ROUTING_KEY_BYTES_MAX, ROUTING_KEY_DOTS_MAX = 64, 15
PROPERTIES_MAX, PROPERTIES_BYTES_MAX, PROPERTY_LENGTH_MAX = 50, 16 * 1024, 1_024
CONTROLS = r"[\x00-\x1f\x7f-\x9f]"
BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
ENTRY_NAME = r"^([A-Za-z][A-Za-z0-9_-]{0,63}(#[0-9]{1,9})?|#[0-9]{1,9})$"
"""The name of an entry: the name of its subscription; NAME#ORDINAL or #ORDINAL if the subscription was deleted."""
PROPERTY_NAME = r"^[A-Za-z_$][A-Za-z0-9_$.-]{0,63}$"
ORDERING_KEY_LENGTH_MAX = 128

PULLED_MAX, PULL_WAIT_S_MAX = 32, 20
PULL_BYTES_ENOUGH, PULL_BYTES_MAX = 4_000_000, 6_200_000
"""A pull takes no more messages after the first size, in bytes. The second is the maximum of an answer (Lambda)."""
PULLED_AROUND_BYTES_MAX = 128 * 1024
"""The maximum bytes of a pulled message without its body. Each byte of its properties may become seven when escaped."""
VISIBILITY_TIMEOUT_S_MIN, VISIBILITY_TIMEOUT_S_DEFAULT, VISIBILITY_TIMEOUT_S_MAX = 10, 60, HIDDEN_S_MAX
TAIL_WAIT_S_MAX = 20
HANDLES_MAX, HANDLE_LENGTH_MAX = 100, 2_048
MEMBER_ID = r"^[A-Za-z0-9_.@#:-]{1,128}$"
MEMBER_VERSION_LENGTH_MAX = 64
SILENCE_S_MIN, SILENCE_S_MAX = 300, 14 * 86_400

URL_LENGTH_MAX = 2_048
BACKOFF_INTERVAL_S_MAX = 3_600
BATCHED_MIN, BATCHED_MAX = 2, 100
BATCHED_BYTES_MIN, BATCHED_BYTES_DEFAULT, BATCHED_BYTES_MAX = 1_024, 256 * 1024, 1024 * 1024
QUEUE_BATCH_MAX = 10
"""The maximum number of messages in a batch request to SQS."""
URL = r"^https?://[\x21-\x7e]+$"
SECRET = r"^(generate|whsec_[A-Za-z0-9+/]{32,86}={0,2})$"
PUSH_HEADERS_MAX, PUSH_HEADERS_BYTES_MAX, PUSH_HEADER_LENGTH_MAX = 10, 2_048, 1_024
PUSH_HEADER_NAME = r"^[A-Za-z][A-Za-z0-9-]{0,63}$"
PUSH_HEADER_VALUE = r"^[!-~]([ -~]*[!-~])?$"
CERTIFICATE_LENGTH_MAX, PRIVATE_KEY_LENGTH_MAX = 10_240, 4_096
START_FROM = r"^(latest|earliest|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,18}(Z|[+-][0-9]{2}:[0-9]{2}))$"
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64
GRACE_S_DEFAULT = 86_400
REASON_LENGTH_MAX = 256
LANE_TEXT_LENGTH_MAX = 256
