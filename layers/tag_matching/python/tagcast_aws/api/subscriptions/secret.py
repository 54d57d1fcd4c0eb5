"""The secret of a subscription in requests, and what exchanges it."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError
from tagcast.ports import World
from tagcast.registry.rotation import GRACE_S_MAX, generated_secret

from tagcast_aws.api import limits
from tagcast_aws.api.http.body import Body

GENERATE = "generate"
"""Given instead of a secret, this asks the service to make one."""


def _secret(text: str) -> str:
    if text == GENERATE:
        return text
    try:
        key = base64.b64decode(text.removeprefix("whsec_").encode(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith("whsec_") or not limits.SECRET_BYTES_MIN <= len(key) <= limits.SECRET_BYTES_MAX:
        span = f"{limits.SECRET_BYTES_MIN}-{limits.SECRET_BYTES_MAX}"
        raise PydanticCustomError("secret", f"must be {GENERATE}, or whsec_ and the base64 of {span} bytes")
    return text


_SCHEMA: JsonDict = {"writeOnly": True, "format": "secret", "pattern": limits.SECRET}
Secret = Annotated[str, AfterValidator(_secret), Field(json_schema_extra=_SCHEMA)]
"""``whsec_`` and base64, or the word that asks for a new one."""


class RotationBody(Body):
    """Another secret, and for how long pushes are signed with the former one besides."""

    secret: Secret = GENERATE
    grace_seconds: Annotated[int, Field(ge=0, le=GRACE_S_MAX)] = limits.GRACE_S_DEFAULT


def made(world: World, given: str | None) -> tuple[str | None, str | None]:
    """Return the secret that *given* stands for, and what of it the answer has to tell since nobody knows it yet."""
    if given != GENERATE:
        return given, None
    secret = generated_secret(world)
    return secret, secret
