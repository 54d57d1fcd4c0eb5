"""Authentication of CMQ requests: a known key, its signature, a recent timestamp, and a new nonce."""

from __future__ import annotations

from typing import Protocol

from tagcast.operating.signed_requests import is_timely, take_once
from tagcast.ports import World

from tagcast_aws.cmq.errors import CmqError, CmqFault
from tagcast_aws.cmq.form import Form
from tagcast_aws.cmq.keys import SECRET_ID_PREFIX, CmqKey, KeyRing
from tagcast_aws.cmq.limits import NONCE_DIGITS_MAX, TIMESTAMP_DIGITS_MAX
from tagcast_aws.cmq.parameters import Parameters
from tagcast_aws.cmq.signature import SIGNATURE, is_signed

KEPT_S = 50.0
"""Seconds for which a process caches the keys, so that a revoked key is refused everywhere within a minute."""
UNKNOWN_KEPT_S = 5.0
"""Seconds until an unknown key is looked up again, so that unknown keys cause few reads."""


class Secret(Protocol):
    """A secret whose text contains the keys."""

    def text(self, age_s_max: float) -> str | None:
        """Return the text, read at most *age_s_max* seconds ago; None if the secret does not exist."""


def authenticate(world: World, keys: Secret, form: Form) -> CmqKey:
    """Return the key of a request, and record its nonce, so that a repetition is refused. Raises CmqError."""
    given = Parameters(form.parameters)
    if given.optional("SecretId") is None and given.optional("appId") is not None:
        raise CmqError(CmqFault.ACCOUNT)
    secret_id = given.text("SecretId")
    if not secret_id.startswith(SECRET_ID_PREFIX):
        raise CmqError(CmqFault.SECRET_ID)
    given.text(SIGNATURE)
    timestamp_s, nonce = int(given.digits("Timestamp", TIMESTAMP_DIGITS_MAX)), given.digits("Nonce", NONCE_DIGITS_MAX)
    key = _key(keys, secret_id)
    _check_signature(form, key)
    if not is_timely(timestamp_s, world.clock.now()):
        raise CmqError(CmqFault.OVERDUE)
    if not take_once(world, secret_id, timestamp_s, nonce):
        raise CmqError(CmqFault.SIGNATURE, "a request with this Timestamp and Nonce was taken already")
    return key


def _key(keys: Secret, secret_id: str) -> CmqKey:
    for age_s_max in (KEPT_S, UNKNOWN_KEPT_S):
        key = KeyRing.of(keys.text(age_s_max)).find(secret_id)
        if key is not None:
            return key
    raise CmqError(CmqFault.UNKNOWN_SECRET_ID)


def _check_signature(form: Form, key: CmqKey) -> None:
    if key.secret_key is None:
        raise CmqError(CmqFault.REVOKED)
    if is_signed(form, key.secret_key):
        return
    if is_signed(form, key.secret_key, leaves_out=True):
        if not key.signs_all:
            return
        raise CmqError(CmqFault.SIGNATURE, "values that begin with @ are not signed, and this key wants them to be")
    asked = f"{form.method} {form.host}{form.path}"
    raise CmqError(CmqFault.SIGNATURE, f"the signature is not that of this request, read as {asked}")
