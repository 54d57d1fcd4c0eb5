"""The names of queues and functions as AWS takes them: what filters, the API and the guard of endpoints agree on."""

from __future__ import annotations

import re

QUEUE_NAME = r"[A-Za-z0-9_-]{1,80}(\.fifo)?"
QUEUE_ARN = rf"arn:aws[a-z-]*:sqs:[a-z0-9-]+:[0-9]{{12}}:{QUEUE_NAME}"
QUEUE_NAME_LENGTH_MAX = 80
"""With its suffix; the pattern alone lets a FIFO queue have five characters more."""

FUNCTION = (
    r"(arn:aws[a-z-]*:lambda:[a-z0-9-]+:[0-9]{12}:function:)?"
    r"[A-Za-z0-9_-]{1,64}(:(\$LATEST|[A-Za-z0-9_-]{1,128}))?"
)
FUNCTION_LENGTH_MAX = 300
"""Longer than the longest: partitions and regions have no bound in the pattern."""

_QUEUE_NAME, _QUEUE_ARN, _FUNCTION = re.compile(QUEUE_NAME), re.compile(QUEUE_ARN), re.compile(FUNCTION)


def is_queue_name(text: str) -> bool:
    """Say whether *text* can be the name of a standard or a FIFO queue.

    >>> is_queue_name("q" * 80), is_queue_name("q" * 75 + ".fifo"), is_queue_name("q" * 76 + ".fifo")
    (True, True, False)
    """
    return len(text) <= QUEUE_NAME_LENGTH_MAX and _QUEUE_NAME.fullmatch(text) is not None


def is_queue_arn(text: str) -> bool:
    """Say whether *text* can be the ARN of a queue.

    >>> is_queue_arn("arn:aws:sqs:eu-west-1:123456789012:orders.fifo"), is_queue_arn("orders.fifo")
    (True, False)
    """
    return _QUEUE_ARN.fullmatch(text) is not None and is_queue_name(text.rpartition(":")[2])


def is_function(text: str) -> bool:
    """Say whether *text* can be the name or the ARN of a function, with a version or an alias or without.

    >>> is_function("bill"), is_function("bill:7"), is_function("arn:aws:lambda:eu-west-1:123456789012:bill")
    (True, True, False)
    """
    return len(text) <= FUNCTION_LENGTH_MAX and _FUNCTION.fullmatch(text) is not None


def is_function_of(prefix: str | None, text: str) -> bool:
    """Say whether the name or the ARN of a function names one that begins with *prefix*; None begins no name.

    >>> is_function_of("tagcast-", "tagcast-x:7"), is_function_of("tagcast-", "bill"), is_function_of(None, "bill")
    (True, False, False)
    >>> is_function_of("tagcast-", "arn:aws:lambda:eu-west-1:123456789012:function:tagcast-x")
    True
    """
    return prefix is not None and text.rpartition(":function:")[2].startswith(prefix)
