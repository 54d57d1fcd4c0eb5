"""A receiver's response for display (docs/http-api.md, Attempts): short, printable, without secrets."""

from __future__ import annotations

import re
from collections.abc import Collection
from html import unescape
from urllib.parse import unquote, unquote_plus

READ_BYTES_MAX = 4_096
EDGE_LENGTH = 512
"""The last 512 characters of a cut response are hidden, because they may contain the beginning of a secret."""
SHOWN_BYTES_MAX = 1_024
REDACTED = "[redacted]"
SECRET_PREFIX = "whsec_"
SECRET_LENGTH_MIN = 6
"""A shorter text is not redacted, because it could be part of ordinary words."""
_ELLIPSIS = "…"
_SCHEMES = r"(?:bearer|basic|digest|negotiate|aws4-hmac-sha256)"
_WORDS = r"(?:authorization|api[_-]?key|token|secret|password|passwd|credential|cookie)"
_NAMES = rf"(?<![\w-])(?=[\w-]*?{_WORDS})[\w-]++"
"""Matches a whole name in one pass, because a malicious response could make the search slow."""
_SENSITIVE = re.compile(
    rf"""(?P<kept>{_NAMES}\\?["']?\s*+[:=]\s*+\\?["']?(?:{_SCHEMES}\s++)?|\b{_SCHEMES}\s++)[^\s"'<>&;,]{{4,}}"""
    rf"|{SECRET_PREFIX}[\w+/=-]{{4,}}",
    re.IGNORECASE,
)


_BACKSLASH = re.compile(r"\\(?:(?:u00|x)([0-9a-f]{2})|([^\w\s]))", re.IGNORECASE)
ESCAPED_LENGTH = len(r"\u0000")
"""The largest length of an escaped character."""


def response_text(answer: bytes, secrets: Collection[str] = ()) -> str:
    r"""Return the displayable part of a response, at most :data:`SHOWN_BYTES_MAX` bytes.

    The subscription's *secrets* and anything that looks like credentials are redacted.

    >>> response_text(b"no\x00 such\nkey, Authorization: Bearer abc.def, sorry")
    'no\\x00 such\\nkey, Authorization: Bearer [redacted], sorry'
    >>> response_text(b"you sent hunter22", ["hunter22"]), response_text(b"not whsec_QUJDREVGR0hJ, but another")
    ('you sent [redacted]', 'not [redacted], but another')
    """
    text = answer[:READ_BYTES_MAX].decode(errors="replace")
    forms = sorted(_forms(secrets), key=len, reverse=True)
    for decode in (str, unquote, unquote_plus, unescape, _unescape_json):  # Only text with a secret stays decoded.
        decoded = decode(text)
        if any(secret in decoded for secret in forms):
            for secret in forms:
                decoded = decoded.replace(secret, REDACTED)
            text = decoded
    text = _SENSITIVE.sub(rf"\g<kept>{REDACTED}", text)
    if len(answer) >= READ_BYTES_MAX:
        text = text[: -max((EDGE_LENGTH, *map(_escaped_length, forms)))]
    return _truncate("".join(map(_visible, text)))


def _forms(secrets: Collection[str]) -> set[str]:
    """Return the secrets, complete and without prefix or scheme."""
    plain = {form for each in secrets for form in (each, each.removeprefix(SECRET_PREFIX), each.partition(" ")[2])}
    return {each for each in plain if len(each) >= SECRET_LENGTH_MIN}


def _escaped_length(secret: str) -> int:
    return len(secret) + (ESCAPED_LENGTH - 1) * sum(not character.isalnum() for character in secret)


def _unescape_json(text: str) -> str:
    r"""Decode JSON's escapes of ASCII characters in *text*.

    >>> _unescape_json(r"a\/b \u002B \"")
    'a/b + "'
    """
    return _BACKSLASH.sub(lambda found: found[2] or chr(int(found[1], 16)), text)


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _truncate(text: str) -> str:
    written = text.encode()
    if len(written) <= SHOWN_BYTES_MAX:
        return text
    return written[: SHOWN_BYTES_MAX - len(_ELLIPSIS.encode())].decode(errors="ignore") + _ELLIPSIS
