"""Names of queues and functions: parses all spellings into one comparable form.

Ambiguous names are refused, because the service and AWS might read them differently.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

QUEUE_NAME = r"[A-Za-z0-9_-]{1,80}(\.fifo)?"
QUEUE_NAME_LENGTH_MAX = 80
"""The limit includes the suffix ``.fifo``. The pattern alone allows a FIFO queue five more characters."""

_REGION, _ACCOUNT = "[a-z0-9-]+", "[0-9]{12}"
QUEUE_ARN = rf"arn:aws[a-z-]*:sqs:{_REGION}:{_ACCOUNT}:{QUEUE_NAME}"
FUNCTION = (
    rf"(arn:aws[a-z-]*:lambda:{_REGION}:{_ACCOUNT}:function:)?"
    r"[A-Za-z0-9_-]{1,64}(:(\$LATEST|[A-Za-z0-9_-]{1,128}))?"
)
NO_FUNCTION = rf"^({_ACCOUNT}|function|(eusc-)?[a-z]{{2}}(-gov|-iso[a-z]?)?-[a-z]+-[0-9]):"
"""How ambiguous names begin. Lambda reads ``123456789012:bill`` as account and name, but the text could be name and
alias. The same is true for a region or the word ``function``.
"""
FUNCTION_LENGTH_MAX = 300
"""The most characters of a function's name or ARN. The pattern does not limit the lengths of partition and region."""

_DOMAIN = r"(?:amazonaws\.(?:com(?:\.cn)?|eu)|api\.aws|api\.amazonwebservices\.(?:com\.cn|eu))"
_QUEUE_HOST = (
    rf"(?:sqs(?:-fips)?\.(?P<region>{_REGION})\.{_DOMAIN}|(?P<legacy>{_REGION})\.queue\.{_DOMAIN}"
    rf"|(?P<oldest>queue\.amazonaws\.com)|[a-z0-9-]+\.sqs\.(?P<private>{_REGION})\.vpce\.{_DOMAIN})"
)
_OLDEST_REGION = "us-east-1"
"""The region of the host ``queue.amazonaws.com``."""
_QUEUE_PATH = rf"(?P<account>{_ACCOUNT})/(?P<name>{QUEUE_NAME})"
_QUEUE_FORMS = (
    re.compile(rf"arn:aws[a-z-]*:sqs:(?P<region>{_REGION}):(?P<account>{_ACCOUNT}):(?P<name>{QUEUE_NAME})"),
    re.compile(rf"https://{_QUEUE_HOST}/{_QUEUE_PATH}"),
)
_QUEUE_ELSEWHERE = re.compile(rf"https?://[A-Za-z0-9.:\[\]_-]+/(?:[A-Za-z0-9_-]+/)*{_QUEUE_PATH}")
_FUNCTION = re.compile(
    rf"(?!{NO_FUNCTION[1:]})(?:arn:aws[a-z-]*:lambda:(?P<region>{_REGION}):(?P<account>{_ACCOUNT}):function:)?"
    r"(?P<name>[A-Za-z0-9_-]{1,64})(?::(?:\$LATEST|[A-Za-z0-9_-]{1,128}))?"
)


@dataclass(frozen=True, slots=True)
class ResourceName:
    """The name of a queue or a function, with its region and account. None means those of the service itself."""

    name: str
    region: str | None = None
    account: str | None = None

    def begins_with(self, prefix: str | None) -> bool:
        """Return whether the name begins with *prefix*, case-insensitively. Return False if *prefix* is None."""
        return prefix is not None and self.name.lower().startswith(prefix.lower())


def queue_named(text: str, *, elsewhere: bool = False) -> ResourceName | None:
    """Return the name of a queue from *text*, its URL or its ARN; None if *text* is neither.

    A URL must have an AWS host, or with *elsewhere* any host.

    >>> queue_named("arn:aws:sqs:eu-west-1:123456789012:orders.fifo")
    ResourceName(name='orders.fifo', region='eu-west-1', account='123456789012')
    >>> queue_named("https://queue.amazonaws.com/123456789012/orders").region
    'us-east-1'
    >>> queue_named("https://sqs.eu-west-1.amazonaws.com/123456789012/orders%2Efifo") is None
    True
    >>> queue_named("http://127.0.0.1:4566/000000000000/orders", elsewhere=True)
    ResourceName(name='orders', region=None, account='000000000000')
    """
    for form in (*_QUEUE_FORMS, _QUEUE_ELSEWHERE) if elsewhere else _QUEUE_FORMS:
        if (found := form.fullmatch(text)) is not None and is_queue_name(found["name"]):
            parts = found.groupdict()
            region = parts.get("region") or parts.get("legacy") or parts.get("private")
            region = region or (_OLDEST_REGION if parts.get("oldest") else None)
            return ResourceName(found["name"], region, found["account"])
    return None


def function_named(text: str) -> ResourceName | None:
    """Return the name of a function from *text*, its name or full ARN; None if *text* is neither.

    The result has no version and no alias.

    >>> function_named("bill:7"), function_named("123456789012:bill")
    (ResourceName(name='bill', region=None, account=None), None)
    >>> function_named("arn:aws:lambda:eu-west-1:123456789012:function:bill:live")
    ResourceName(name='bill', region='eu-west-1', account='123456789012')
    """
    found = _FUNCTION.fullmatch(text) if len(text) <= FUNCTION_LENGTH_MAX else None
    return None if found is None else ResourceName(found["name"], found["region"], found["account"])


def is_queue_name(text: str) -> bool:
    """Return whether *text* is a valid name of a standard or a FIFO queue.

    >>> is_queue_name("q" * 80), is_queue_name("q" * 75 + ".fifo"), is_queue_name("q" * 76 + ".fifo")
    (True, True, False)
    """
    return len(text) <= QUEUE_NAME_LENGTH_MAX and re.fullmatch(QUEUE_NAME, text) is not None
