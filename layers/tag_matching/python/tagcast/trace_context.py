"""A message's place in a distributed trace (W3C Trace Context).

The rules are those of level 1, sections 3.2 (traceparent) and 3.3 (tracestate), and the ``random`` flag of level 2.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

STATE_MEMBERS_MAX, STATE_LENGTH_MAX, LONG_MEMBER = 32, 512, 128
"""The limits of a stored tracestate: members, characters, and the length above which a member is dropped first."""
FLAGS = 0b11
"""The flags ``sampled`` and ``random``; all other flags are sent as zeros."""
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_KEY = r"[a-z0-9][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}"
_MEMBER = re.compile(rf"({_KEY})=[ -+\--<>-~]{{0,255}}[!-+\--<>-~]")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The valid values of ``traceparent`` and ``tracestate``; *state* may be empty."""

    parent: str
    state: str = ""

    @property
    def trace_id(self) -> str:
        """The id of the whole trace."""
        return self.parent.split("-")[1]

    @property
    def fields(self) -> dict[str, str]:
        """The headers: ``traceparent``, and ``tracestate`` if there is one."""
        return {"traceparent": self.parent} | ({"tracestate": self.state} if self.state else {})

    @property
    def text(self) -> str:
        """Both headers in one text for rows, separated by a space. The space is unambiguous: ``parent`` has none."""
        return f"{self.parent} {self.state}".rstrip()


def parse_trace(text: str) -> TraceContext:
    """Return the trace of a :attr:`TraceContext.text`."""
    parent, _, state = text.partition(" ")
    return TraceContext(parent, state)


def read_trace(parent: str | None, state: str | None = None) -> TraceContext | None:
    """Return a producer's trace, or None without a valid ``traceparent``; an invalid *state* is dropped.

    A ``traceparent`` of a later version is read like version 00, and forwarded as version 00.

    >>> read_trace("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-09-what.the.future", " a=1 , , b=2")
    TraceContext(parent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', state='a=1,b=2')
    >>> read_trace("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01")
    """
    found = _PARENT.fullmatch((parent or "").strip(" \t"))
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more is not None) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return TraceContext(f"00-{trace_id}-{span_id}-{int(flags, 16) & FLAGS:02x}", _state(state or ""))


def make_trace(topic: str, message_id: str) -> TraceContext:
    """Return the trace that the service derives for a message whose producer sent none.

    The trace of a message is always the same, so it is not stored. It has the flag ``sampled``: otherwise a receiver
    that samples like its parent would drop its own spans.

    >>> make_trace("orders", "07457000000000000001").parent
    '00-14e3676df09e1260d22ce4e15db5a23a-70eb5552683130e2-01'
    """
    digest = hashlib.sha256(f"{topic} {message_id}".encode()).hexdigest()
    return TraceContext(f"00-{digest[:32]}-{digest[32:48]}-01")


def _state(text: str) -> str:
    """Return a tracestate within the limits, without empty members and spaces around members; empty if invalid."""
    members = [member for each in text.split(",") if (member := each.strip(" \t"))]
    found = [_MEMBER.fullmatch(member) for member in members]
    keys = {each[1] for each in found if each is not None}
    if len(keys) != len(members) or len(members) > STATE_MEMBERS_MAX:
        return ""
    return ",".join(_bound_members(members))


def _bound_members(members: list[str]) -> list[str]:
    """Return the members within the limits: long members are dropped first, then the oldest, which are at the end."""
    kept = list(members)
    while len(",".join(kept)) > STATE_LENGTH_MAX:
        long = [place for place, member in enumerate(kept) if len(member) > LONG_MEMBER]
        del kept[long[-1] if long else -1]
    return kept
