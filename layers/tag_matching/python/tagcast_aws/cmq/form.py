"""A CMQ request: a form in the query of a GET, or in the body of a POST regardless of its content type."""

from __future__ import annotations

import re
from binascii import a2b_qp
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tagcast.strict_json import MalformedError

from tagcast_aws.api.http.requests import body_bytes_of
from tagcast_aws.api.limits import REQUEST_BYTES_MAX
from tagcast_aws.cmq.errors import CmqError, CmqFault
from tagcast_aws.cmq.limits import FORM_FIELDS_MAX

PATHS = ("/v2/index.php", "/")
"""Paths of CMQ's API. The Go client uses the second path unless its address names a path."""
_ROOT = "/"
_NAMES_ACTION = re.compile(rb"(?:^|&)[Aa]ction=")
_HALF_ESCAPED = re.compile(rb"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Form:
    """A request, with the parts that its signature covers.

    *host* includes the port. *parameters* are decoded, and include blank parameters. *size* is the size of the encoded
    form in bytes.
    """

    method: str
    host: str
    path: str
    parameters: Mapping[str, str]
    size: int


def is_of_cmq(event: Mapping[str, Any]) -> bool:
    """Return whether a request is for CMQ. On the root path, a request is for CMQ only if it has an action.

    >>> root = {"rawPath": "/", "rawQueryString": ""}
    >>> is_of_cmq(root), is_of_cmq(root | {"rawQueryString": "a=1&Action=ListTopic"}), is_of_cmq({"rawPath": PATHS[0]})
    (False, True, True)
    """
    if not event["rawPath"].endswith(_ROOT):
        return True
    try:
        sent = body_bytes_of(event)
    except MalformedError:
        return False
    query = str(event.get("rawQueryString") or "").encode("utf-8", "surrogatepass")
    return any(_NAMES_ACTION.search(content) for content in (query, sent))


def form_of(event: Mapping[str, Any]) -> Form:
    """Return the form in an API Gateway event (payload 2.0). Raises CmqError if it is malformed."""
    method = event["requestContext"]["http"]["method"].upper()
    if method not in ("GET", "POST"):
        raise CmqError(CmqFault.METHOD, method)
    content = _content(event, method)
    host = next((value for name, value in (event.get("headers") or {}).items() if name.lower() == "host"), "")
    return Form(method, host, event["rawPath"], parameters_in(content), len(content))


def _content(event: Mapping[str, Any], method: str) -> bytes:
    try:
        content = str(event.get("rawQueryString") or "").encode() if method == "GET" else body_bytes_of(event)
    except (MalformedError, UnicodeEncodeError):
        raise CmqError(CmqFault.UNREADABLE, "it is not UTF-8 text") from None
    if not content:
        raise CmqError(CmqFault.NOTHING_GIVEN) if method == "POST" else CmqError(CmqFault.NOTHING_IN_URI, "Action")
    if len(content) > REQUEST_BYTES_MAX:
        raise CmqError(CmqFault.UNREADABLE, "it is too large")
    return content


def parameters_in(content: bytes) -> dict[str, str]:
    """Return the parameters of a form. Raises CmqError if it is malformed, or repeats a parameter.

    >>> parameters_in(b"topicName=t1&routingKey=&msgBody=a+%26+b")
    {'topicName': 't1', 'routingKey': '', 'msgBody': 'a & b'}
    """
    try:
        pairs = list(_pairs(content))
    except ValueError:
        raise CmqError(CmqFault.UNREADABLE, f"it is not a UTF-8 form of at most {FORM_FIELDS_MAX} fields") from None
    if not pairs:
        raise CmqError(CmqFault.NOTHING_GIVEN)
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise CmqError(CmqFault.REPEATED, format_name(name))
        found[name] = value
    return found


def _pairs(content: bytes) -> Iterator[tuple[str, str]]:
    """Yield names and values. Raises ValueError for a malformed form."""
    if content.count(b"&") >= FORM_FIELDS_MAX or _HALF_ESCAPED.search(content):
        raise ValueError("too many fields, or half an escape")
    for field in content.split(b"&"):
        if field:
            name, _, value = field.partition(b"=")
            yield _decode_escapes(name), _decode_escapes(value)


def _decode_escapes(escaped: bytes) -> str:
    """Decode a name or a value; each escape must be complete.

    Except for the escape character, the escapes equal quoted-printable, so one call decodes all of them. `urllib` would
    build a list of the escapes, and need 80 times the memory.
    """
    plain = escaped.replace(b"+", b" ").replace(b"=", b"=3D").replace(b"%", b"=")
    return a2b_qp(plain).decode()


def format_name(name: str) -> str:
    """Return a parameter's name for an error text: its first 32 characters (``?`` for unprintable ones), then ``…``.

    >>> format_name("topicName"), format_name("x" * 100)
    ('topicName', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…')
    """
    plain = "".join(character if character.isprintable() else "?" for character in name)
    return plain if len(plain) <= _SHOWN_MAX else f"{plain[:_SHOWN_MAX]}…"


_SHOWN_MAX = 32
