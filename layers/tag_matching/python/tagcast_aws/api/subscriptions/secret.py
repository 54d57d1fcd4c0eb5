"""The signing secret of a subscription, its rotation, and the public keys that verify its pushes."""

from __future__ import annotations

import base64
from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError
from tagcast.errors import UnavailableError
from tagcast.model import Subscription
from tagcast.ports import World
from tagcast.registry.subscriptions import GRACE_S_MAX, generated_secret
from tagcast.subscription_settings import Signature

from tagcast_aws.api import limits
from tagcast_aws.api.http.body import Body

GENERATE = "generate"
"""In place of a secret, this word tells the service to generate one."""


def _secret(text: str) -> str:
    if text == GENERATE:
        return text
    try:
        key = base64.b64decode(text.removeprefix("whsec_").encode(), validate=True)
    except ValueError:
        key = b""
    if not text.startswith("whsec_") or not limits.SECRET_BYTES_MIN <= len(key) <= limits.SECRET_BYTES_MAX:
        span = f"{limits.SECRET_BYTES_MIN}-{limits.SECRET_BYTES_MAX}"
        raise PydanticCustomError("secret", f"must be {GENERATE}, or whsec_ and the base64 of {span} bytes")
    return text


_SCHEMA: JsonDict = {"writeOnly": True, "format": "secret", "pattern": limits.SECRET}
Secret = Annotated[str, AfterValidator(_secret), Field(json_schema_extra=_SCHEMA)]
"""``whsec_`` and base64, or the word that tells the service to generate a secret."""


class RotationBody(Body):
    """The new secret, and how long the old one also signs pushes."""

    secret: Secret = GENERATE
    grace_seconds: Annotated[int, Field(ge=0, le=GRACE_S_MAX)] = limits.GRACE_S_DEFAULT


def make_secret(world: World, given: str | None) -> tuple[str | None, str | None]:
    """Return the secret to store, and the secret to show in the answer. None in either place means no secret.

    The secret to store is *given*, or a new secret if *given* is ``generate``. Only a new secret is shown.
    """
    if given != GENERATE:
        return given, None
    secret = generated_secret(world)
    return secret, secret


def public_keys(world: World, subscriptions: Sequence[Subscription]) -> list[list[str]]:
    """Return a list of public keys for each of *subscriptions*. A key is ``whpk_`` and base64, as in Standard Webhooks.

    The list is empty for a subscription without the signature ``v1a``. If the service cannot read its signing keys, all
    lists are empty, and the failure is only recorded.
    """
    try:
        return [
            [f"whpk_{b64encode(key).decode()}" for key in world.signer.public_keys(each.subscription_id)]
            if each.settings.signature is Signature.V1A
            else []
            for each in subscriptions
        ]
    except UnavailableError as fault:
        world.telemetry.record_failure("public keys of subscriptions", fault)
        return [[] for _ in subscriptions]
