"""The addresses and URLs that may be reached: the rules shared by guard, resolver and pusher."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable
from functools import lru_cache

from tagcast.model import Protocol
from yarl import URL

from tagcast_aws.runtime.settings import Reach

NOT_PUBLIC = "address not public"
NOT_PRIVATE = "address neither public nor private"
DOES_NOT_RESOLVE = "does not resolve"
URL_CHARS_MAX = 2048

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Lookup = Callable[[str], list[str]]

_HOST = re.compile(r"(?=.{1,253}\.?$)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*\.?", re.IGNORECASE)
_ODD_IPV4 = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+)){0,3}", re.IGNORECASE)

# IANA's registries of special-purpose addresses; multicast and the reserved block come last.
_NOT_PUBLIC_V4 = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    )
)
# In IPv6 only global unicast is public, except these (2001::/23 holds Teredo, ORCHID, benchmarking).
_GLOBAL_UNICAST_V6 = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_V6 = tuple(ipaddress.IPv6Network(block) for block in ("2001::/23", "2001:db8::/32", "3fff::/20"))
_PRIVATE = tuple(
    ipaddress.ip_network(block)
    for block in ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(address: Address) -> bool:
    """Return whether *address* is globally routable unicast. An IPv4 address inside an IPv6 address is checked as IPv4.

    >>> is_public(ipaddress.ip_address("93.184.215.14")), is_public(ipaddress.ip_address("::ffff:10.0.0.1"))
    (True, False)
    """
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in block for block in _NOT_PUBLIC_V4)
    if (inner := _inner_address(address)) is not None:
        return is_public(inner)
    return address in _GLOBAL_UNICAST_V6 and not any(address in block for block in _NOT_PUBLIC_V6)


def _inner_address(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour


def is_reachable(address: Address, reach: Reach) -> bool:
    """Return whether an endpoint may have *address*.

    >>> [is_reachable(ipaddress.ip_address(each), Reach.PRIVATE) for each in ("10.0.0.1", "127.0.0.1", "fd00::1")]
    [True, False, True]
    """
    if reach is Reach.ANY or is_public(address):
        return True
    inner = _inner_address(address) if isinstance(address, ipaddress.IPv6Address) else None
    return reach is Reach.PRIVATE and any((inner or address) in block for block in _PRIVATE)


def are_reachable(addresses: Iterable[str], reach: Reach) -> bool:
    """Return whether an endpoint may have all *addresses* (texts, with or without scope ids)."""
    return all(is_reachable(ipaddress.ip_address(address.partition("%")[0]), reach) for address in addresses)


def literal(host: str) -> Address | None:
    """Return the address in *host*, in any notation that C libraries accept; None for a name.

    >>> literal("0x7f.1"), literal("2130706433"), literal("example.com")
    (IPv4Address('127.0.0.1'), IPv4Address('127.0.0.1'), None)
    """
    bare = host.removesuffix(".")
    try:
        return ipaddress.ip_address(bare)
    except ValueError:
        pass
    if not _ODD_IPV4.fullmatch(bare):
        return None
    try:
        return ipaddress.IPv4Address(socket.inet_aton(bare))
    except OSError:
        return None


parsed = lru_cache(maxsize=4096)(URL)
"""Parses a URL, with a cache, or raises ValueError."""


@lru_cache(maxsize=4096)
def url_refusal(text: str, protocol: Protocol, reach: Reach) -> str | None:
    """Return why *text* must not be the URL of an endpoint, or None if it may be. Does not resolve names."""
    if len(text) > URL_CHARS_MAX:
        return f"URL longer than {URL_CHARS_MAX} characters"
    if re.search(r"[\s\x00-\x20\x7f-\x9f\\]", text):
        return "URL has whitespace, control characters or a backslash"
    try:
        url = parsed(text)
        port = url.port
    except ValueError:
        return "malformed URL"
    if url.scheme != protocol:
        return f"URL scheme is not {protocol.value}"
    if url.raw_user is not None or url.raw_password is not None or "@" in _authority(text):
        return "URL has a user name or password"
    if "#" in text:
        return "URL has a fragment"
    if not port:
        return "invalid port"
    return _host_refusal(url.raw_host or "", reach)


def _authority(text: str) -> str:
    return "".join(re.split("[/?#]", text)[2:3])


def _host_refusal(host: str, reach: Reach) -> str | None:
    address = literal(host)
    if address is None:
        last = host.removesuffix(".").rpartition(".")[2]
        # A numeric last label makes the host an address, and this address is invalid (WHATWG URL, host parsing).
        is_name = _HOST.fullmatch(host) and not _ODD_IPV4.fullmatch(last)
        return None if is_name else "invalid host"
    if not is_reachable(address, reach):
        return refused_address(reach)
    return None if str(address) == host.lower() else _notation_refusal(address, host)


def refused_address(reach: Reach) -> str:
    """Return the text that says why *reach* does not allow an address."""
    return NOT_PUBLIC if reach is Reach.PUBLIC else NOT_PRIVATE


def _notation_refusal(address: Address, host: str) -> str | None:
    # Long forms of IPv6 are harmless; unusual IPv4 notations are ambiguous between programs.
    return None if isinstance(address, ipaddress.IPv6Address) and "%" not in host else "invalid host"


def look_up(host: str) -> list[str]:
    """Return the addresses of *host* from the system's resolver. Raises OSError if there are none."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
