"""Authentication of CMQ requests: a known key, its signature (API 2.0), a recent timestamp, and no repetition."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from typing import Protocol

from tagcast.operating.signed_requests import is_timely, take_once
from tagcast.ports import World

from tagcast_aws.cmq.errors import CmqError, CmqFault
from tagcast_aws.cmq.form import Form
from tagcast_aws.cmq.keys import SECRET_ID_PREFIX, CmqKey, KeyRing
from tagcast_aws.cmq.limits import NONCE_DIGITS_MAX, TIMESTAMP_DIGITS_MAX
from tagcast_aws.cmq.parameters import Parameters

KEPT_S = 50.0
"""Seconds for which a process caches the keys, so that a revoked key is refused everywhere within a minute."""
UNKNOWN_KEPT_S = 5.0
"""Seconds until an unknown key is looked up again, so that unknown keys cause few reads."""


class Secret(Protocol):
    """The secret in Secrets Manager whose text holds all CMQ keys as JSON (:meth:`KeyRing.of` parses it)."""

    def text(self, age_s_max: float) -> str | None:
        """Return the text, read at most *age_s_max* seconds ago; None if the secret does not exist."""


def authenticate(world: World, keys: Secret, form: Form) -> CmqKey:
    """Return the key that signed a request. Record the request, so a repetition is refused. Raises CmqError."""
    given = Parameters(form.parameters)
    if given.optional("SecretId") is None and given.optional("appId") is not None:
        raise CmqError(CmqFault.ACCOUNT)
    secret_id = given.text("SecretId")
    if not secret_id.startswith(SECRET_ID_PREFIX):
        raise CmqError(CmqFault.SECRET_ID)
    signed = given.text(SIGNATURE)
    timestamp_s = int(given.digits("Timestamp", TIMESTAMP_DIGITS_MAX))
    given.digits("Nonce", NONCE_DIGITS_MAX)
    key = _key(keys, secret_id)
    _check_signature(form, key)
    if not is_timely(timestamp_s, world.clock.now()):
        raise CmqError(CmqFault.SIGNATURE, "the Timestamp is more than 5 minutes from now")
    if not take_once(world, secret_id, timestamp_s, signed):
        raise CmqError(CmqFault.SIGNATURE, "this request was already accepted; sign a new one")
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
        raise CmqError(CmqFault.SIGNATURE, "values that begin with @ are not signed, but this key requires it")
    request_line = f"{form.method} {form.host}{form.path}"
    raise CmqError(CmqFault.SIGNATURE, f"the signature does not match this request, read as {request_line}")


SIGNATURE = "Signature"
UNSIGNED_MARK = "@"
_SHA256 = "HmacSHA256"


def string_to_sign(form: Form, *, leaves_out: bool = False) -> str:
    """Return the text that a client signs: method, host, path, and all other parameters in byte order.

    After sorting, a dot replaces each underscore in the names. With *leaves_out*, values of a POST that begin with an
    at sign are not signed, as in the Python and PHP clients.

    >>> string_to_sign(Form("GET", "example.test:80", "/", {"b_1": "x y", "a": "@", "Signature": "s"}, 0))
    'GETexample.test:80/?a=@&b.1=x y'
    """
    pairs = _signed_pairs(form.parameters, leaves_out and form.method == "POST")
    return f"{form.method}{form.host}{form.path}?{'&'.join(pairs)}"


def _signed_pairs(parameters: Mapping[str, str], leaves_out: bool) -> Iterator[str]:
    for name in sorted(parameters, key=str.encode):
        value = parameters[name]
        if name != SIGNATURE and not (leaves_out and value.startswith(UNSIGNED_MARK)):
            yield f"{name.replace('_', '.')}={value}"


def signature(text: str, secret_key: str, method: str | None) -> str:
    """Return the signature of *text*: SHA256 if the *method* is exactly ``HmacSHA256``, otherwise SHA1.

    >>> signature("GET", "key", "HmacSHA1")
    'OszPbk2WxCbGJl82Q2bl2WY+7fg='
    """
    digest = hashlib.sha256 if method == _SHA256 else hashlib.sha1
    return base64.b64encode(hmac.new(secret_key.encode(), text.encode(), digest).digest()).decode()


def is_signed(form: Form, secret_key: str, *, leaves_out: bool = False) -> bool:
    """Return whether *form* is signed with *secret_key*. *leaves_out* has the meaning of :func:`string_to_sign`.

    The comparison takes constant time.
    """
    wanted = signature(string_to_sign(form, leaves_out=leaves_out), secret_key, form.parameters.get("SignatureMethod"))
    return hmac.compare_digest(wanted.encode(), form.parameters.get(SIGNATURE, "").encode())
