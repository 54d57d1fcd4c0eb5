"""Decides which requests a local server accepts. It refuses requests that web pages of other sites send."""

from collections.abc import Mapping
from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "localhost", "::1")
OWN_SITES = ("same-origin", "none")
"""Values of Sec-Fetch-Site for a page's own requests and for a typed address."""
HTTP_PORT = 80
"""The port that clients leave out of `Host` and `Origin`."""


def is_own_host(host: str | None, port: int, configured: str = "") -> bool:
    """Return whether the value *host* of the header Host names this server: a local name with *port*, or *configured*.

    Other names are refused, even if they resolve to this machine.

    >>> is_own_host("127.0.0.1:8090", 8090), is_own_host("localhost:8090", 8090), is_own_host("[::1]:8090", 8090)
    (True, True, True)
    >>> is_own_host("evil.example:8090", 8090), is_own_host("127.0.0.1:80", 8090), is_own_host(None, 8090)
    (False, False, False)
    >>> is_own_host("api.example", 8090, "api.example"), is_own_host("api.example:80", 8090, "api.example")
    (True, True)
    >>> is_own_host("localhost", 80), is_own_host("[::1]", 80), is_own_host("localhost", 8090)
    (True, True, False)
    """
    is_without_port = port == HTTP_PORT and ":" not in (host or "").rpartition("]")[2]
    named, _, at = (f"{host}:{port}" if is_without_port else host or "").rpartition(":")
    if configured and configured in (host, named):
        return True
    return at == str(port) and named.strip("[]") in LOOPBACK


def is_foreign(origin: str | None, port: int) -> bool:
    """Return whether the header Origin names another site; False if the header is missing (None).

    A page under another host name is foreign, even if the name resolves to this machine.

    >>> is_foreign(None, 8080), is_foreign("http://127.0.0.1:8080", 8080), is_foreign("http://localhost:8080", 8080)
    (False, False, False)
    >>> is_foreign("https://example.com", 8080), is_foreign("http://127.0.0.1:9000", 8080), is_foreign("null", 8080)
    (True, True, True)
    >>> is_foreign("http://[", 8080), is_foreign("http://127.0.0.1:x", 8080)
    (True, True)
    >>> is_foreign("http://localhost", 80), is_foreign("https://localhost", 80), is_foreign("http://a.test", 80)
    (False, True, True)
    """
    if origin is None:
        return False
    try:
        parts = urlsplit(origin)
        at = HTTP_PORT if parts.port is None and parts.scheme == "http" else parts.port
        return parts.hostname not in LOOPBACK or at != port
    except ValueError:  # No browser sends such an origin.
        return True


def why_refused(headers: Mapping[str, str], port: int, configured: str = "") -> str:
    """Return why a request is refused; empty if it is accepted. The names of *headers* are in lower case.

    For an image or a form, browsers may send no Origin header. They do send `Sec-Fetch-Site`.

    >>> why_refused({"host": "localhost:80", "sec-fetch-site": "none"}, 80)
    ''
    >>> why_refused({"host": "localhost:80", "sec-fetch-site": "same-site"}, 80)
    'pages of other origins may not call the local stack'
    >>> why_refused({"host": "evil.example:80"}, 80)
    'the local stack has another name: call 127.0.0.1 or localhost at its port, or start it with --host NAME'
    """
    if not is_own_host(headers.get("host"), port, configured):
        return "the local stack has another name: call 127.0.0.1 or localhost at its port, or start it with --host NAME"
    if is_foreign(headers.get("origin"), port) or headers.get("sec-fetch-site", "none") not in OWN_SITES:
        return "pages of other origins may not call the local stack"
    return ""
