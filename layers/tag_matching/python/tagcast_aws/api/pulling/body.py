"""Request bodies of consumer groups."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from tagcast_aws.api import limits
from tagcast_aws.api.http.body import Body

VisibilityTimeoutS = Annotated[int, Field(ge=limits.VISIBILITY_TIMEOUT_S_MIN, le=limits.VISIBILITY_TIMEOUT_S_MAX)]
ReceiptHandle = Annotated[str, StringConstraints(min_length=1, max_length=limits.HANDLE_LENGTH_MAX)]
ReceiptHandles = Annotated[list[ReceiptHandle], Field(min_length=1, max_length=limits.HANDLES_MAX)]


class PullBody(Body):
    """How many messages to pull, how long to wait for them, and their visibility timeout."""

    max_messages: Annotated[int, Field(ge=1, le=limits.PULLED_MAX)] = limits.PULLED_MAX
    wait_seconds: Annotated[int, Field(ge=0, le=limits.PULL_WAIT_S_MAX)] = 0
    visibility_timeout_seconds: VisibilityTimeoutS = limits.VISIBILITY_TIMEOUT_S_DEFAULT
    member_id: Annotated[str, StringConstraints(pattern=limits.MEMBER_ID)] | None = None


class AckBody(Body):
    """The messages to acknowledge."""

    receipt_handles: ReceiptHandles


class NackBody(Body):
    """The messages to nack, and the delay until they are visible again."""

    receipt_handles: ReceiptHandles
    delay_seconds: Annotated[int, Field(ge=0, le=limits.VISIBILITY_TIMEOUT_S_MAX)] = 0


class ExtendBody(Body):
    """The messages whose visibility timeout to extend, and the new timeout, counted from now."""

    receipt_handles: ReceiptHandles
    visibility_timeout_seconds: VisibilityTimeoutS = limits.VISIBILITY_TIMEOUT_S_DEFAULT
