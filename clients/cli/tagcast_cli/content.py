"""Messages on the command line: their bodies and attributes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from rich.text import Text
from tagcast_client.operation import Json
from tagcast_client.outgoing import MessageAttributes, NewMessage
from tagcast_client.settings import MESSAGE_ATTRIBUTES, TOPIC_SETTINGS

from tagcast_cli.options import SettingOptions
from tagcast_cli.screen import console
from tagcast_cli.visible import visible_line

BODY_BYTES_MAX = int(next(each.maximum or 0 for each in TOPIC_SETTINGS if each.name == "max_message_bytes"))
"""The maximum `max_message_bytes` of a topic."""


def warn_of_commas(tags: list[str] | None) -> list[str] | None:
    """Return the tags of an option. Print a warning for a tag with a comma, because commas do not separate tags."""
    for tag in tags or ():
        if "," in tag:
            warning = f"{visible_line(repr(tag))} is one tag, with a comma. To give several tags, repeat --tag."
            console(to_errors=True).print(Text(f"warning: {warning}", style="yellow"))
    return tags


PropertyPairs = Annotated[
    list[str] | None, typer.Option("--property", "-p", metavar="NAME=VALUE", help="Property; may be repeated.")
]


def body_bytes(source: str | None, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """Return the body that the argument *source* gives: a text, `-` for standard input, or `@file` for a file.

    If *source* is None, the body is the piped standard input, or empty in a terminal. Raises BadParameter for an
    unreadable file, and for a file or an input above *bytes_max*, because the input may have no end.
    """
    if source is None:
        return b"" if sys.stdin.isatty() else _read(sys.stdin.buffer, "standard input", bytes_max)
    if source == "-":
        return _read(sys.stdin.buffer, "standard input", bytes_max)
    if source.startswith("@"):
        try:
            with Path(source[1:]).open("rb") as file:
                return _read(file, source[1:], bytes_max)
        except OSError as error:
            raise typer.BadParameter(f"cannot read {source[1:]}: {error.strerror}") from None
    return source.encode("utf-8", "surrogateescape")


def _read(file: BinaryIO, name: str, bytes_max: int) -> bytes:
    content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise typer.BadParameter(f"{name} is longer than {bytes_max:,} bytes, the maximum")
    return content


def parse_json(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError for bad JSON, and for an object that has a name twice.

    Without this error, only the last value of the name would be sent.

    >>> parse_json('{"a": [1], "a": [2]}')
    Traceback (most recent call last):
        ...
    ValueError: "a" is given twice
    """
    return json.loads(text, object_pairs_hook=_members)


def _members(pairs: list[tuple[str, Any]]) -> Json:
    members: Json = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"{json.dumps(name)} is given twice")
        members[name] = value
    return members


def properties_of(pairs: list[str]) -> dict[str, str]:
    """Return properties from `name=value` pairs. A value may contain equals signs. Raises BadParameter for a bad pair.

    >>> properties_of(["price=120", "rule=a=b"])
    {'price': '120', 'rule': 'a=b'}
    """
    properties = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--property")
        if name in properties:
            raise typer.BadParameter(f"{name!r} is given twice", param_hint="--property")
        properties[name] = value
    return properties


def as_published(body: bytes) -> str | bytes:
    """Return a UTF-8 body as text, so receivers get it as text. Return any other body as bytes."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body


TextAttributes = Annotated[
    Json,
    SettingOptions(
        [each for each in MESSAGE_ATTRIBUTES if each.name in MessageAttributes.__annotations__],
        leave_out=("routing_key",),
    ),
]
"""The text attributes of a message, except the routing key, which has a short option."""


def message_of(
    body: bytes,
    texts: Json | None = None,
    *,
    tags: list[str] | None = None,
    routing_key: str | None = None,
    property_pairs: list[str] | None = None,
) -> Json:
    """Return a message in the API's form. A body that is not UTF-8 becomes base64.

    *texts* has other attributes by name, such as the content type. *property_pairs* are ``name=value`` texts.

    >>> message_of(b"hello", tags=["apple"])
    {'body': 'hello', 'tags': ['apple']}
    >>> message_of(bytes([255]))
    {'body_base64': '/w=='}
    """
    given = {
        **(texts or {}),
        "tags": tags,
        "routing_key": routing_key,
        "properties": properties_of(property_pairs or []),
    }
    return NewMessage.like(given, as_published(body)).as_json()
