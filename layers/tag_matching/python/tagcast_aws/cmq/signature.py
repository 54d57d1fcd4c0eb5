"""Signatures of CMQ's API 2.0."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator, Mapping

from tagcast_aws.cmq.form import Form

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
    pairs = _signed(form.parameters, leaves_out and form.method == "POST")
    return f"{form.method}{form.host}{form.path}?{'&'.join(pairs)}"


def _signed(parameters: Mapping[str, str], leaves_out: bool) -> Iterator[str]:
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
    """Return whether the form has the signature of this key, with *leaves_out* as in :func:`string_to_sign`.

    The comparison takes constant time.
    """
    wanted = signature(string_to_sign(form, leaves_out=leaves_out), secret_key, form.parameters.get("SignatureMethod"))
    return hmac.compare_digest(wanted.encode(), form.parameters.get(SIGNATURE, "").encode())
