"""What members of groups send."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from tagcast_aws.api import limits
from tagcast_aws.api.http.body import Body

VisibilityTimeoutS = Annotated[int, Field(ge=limits.VISIBILITY_TIMEOUT_S_MIN, le=limits.VISIBILITY_TIMEOUT_S_MAX)]
ReceiptHandle = Annotated[str, StringConstraints(min_length=1, max_length=limits.HANDLE_LENGTH_MAX)]
ReceiptHandles = Annotated[list[ReceiptHandle], Field(min_length=1, max_length=limits.HANDLES_MAX)]


class PullBody(Body):
    """How much to pull, how long to wait for it, and for how long nobody else gets it."""

    max_messages: Annotated[int, Field(ge=1, le=limits.PULLED_MAX)] = limits.PULLED_MAX
    wait_seconds: Annotated[int, Field(ge=0, le=limits.PULL_WAIT_S_MAX)] = 0
    visibility_timeout_seconds: VisibilityTimeoutS = limits.VISIBILITY_TIMEOUT_S_DEFAULT
    member_id: Annotated[str, StringConstraints(pattern=limits.MEMBER_ID)] | None = None


class AckBody(Body):
    """What was done."""

    receipt_handles: ReceiptHandles


class NackBody(Body):
    """What was not done, and when it may be pulled again."""

    receipt_handles: ReceiptHandles
    delay_seconds: Annotated[int, Field(ge=0, le=limits.VISIBILITY_TIMEOUT_S_MAX)] = 0


class ExtendBody(Body):
    """What is not done yet, and for how long from now nobody else gets it."""

    receipt_handles: ReceiptHandles
    visibility_timeout_seconds: VisibilityTimeoutS = limits.VISIBILITY_TIMEOUT_S_DEFAULT
