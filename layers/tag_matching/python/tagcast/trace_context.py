"""Where in a distributed trace a message stands, as W3C's Trace Context writes it.

Rules: W3C Trace Context, level 1 and the flag of level 2, 3.2 (traceparent), 3.3 (tracestate).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

STATE_MEMBERS_MAX, STATE_LENGTH_MAX, LONG_MEMBER = 32, 512, 128
"""The most members and characters of a tracestate that are kept. Long members are dropped first."""
FLAGS = 0b11
"""``sampled`` and ``random``; all others are sent as zeros."""
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_KEY = r"[a-z0-9][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}"
_MEMBER = re.compile(rf"({_KEY})=[ -+\--<>-~]{{0,255}}[!-+\--<>-~]")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """Both headers, valid; *state* is empty where there is none."""

    parent: str
    state: str = ""

    @property
    def trace_id(self) -> str:
        """Return the id that everything in the trace has in common."""
        return self.parent.split("-")[1]

    @property
    def fields(self) -> dict[str, str]:
        """Return what is sent: ``traceparent``, and ``tracestate`` if there is one."""
        return {"traceparent": self.parent} | ({"tracestate": self.state} if self.state else {})

    @property
    def text(self) -> str:
        """Return both as one text, as rows keep them: a parent has no blank."""
        return f"{self.parent} {self.state}".rstrip()


def trace_in(text: str) -> TraceContext:
    """Return what :attr:`TraceContext.text` wrote."""
    parent, _, state = text.partition(" ")
    return TraceContext(parent, state)


def trace_read(parent: str | None, state: str | None = None) -> TraceContext | None:
    """Return what a producer sent, or None where it has no valid ``traceparent``; an invalid *state* is dropped.

    A later version than ours is read as far as it is ours, and sent on in ours.

    >>> trace_read("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-09-what.the.future", " a=1 , , b=2")
    TraceContext(parent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', state='a=1,b=2')
    >>> trace_read("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01")
    """
    found = _PARENT.fullmatch((parent or "").strip(" \t"))
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more is not None) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return TraceContext(f"00-{trace_id}-{span_id}-{int(flags, 16) & FLAGS:02x}", _state(state or ""))


def trace_made(topic: str, message_id: str) -> TraceContext:
    """Return the trace of a message whose producer named none: always the same one, so that nobody has to store it.

    It is ``sampled``: a receiver that follows its parent would leave out its own part otherwise.

    >>> trace_made("orders", "07457000000000000001").parent
    '00-14e3676df09e1260d22ce4e15db5a23a-70eb5552683130e2-01'
    """
    digest = hashlib.sha256(f"{topic} {message_id}".encode()).hexdigest()
    return TraceContext(f"00-{digest[:32]}-{digest[32:48]}-01")


def _state(text: str) -> str:
    """Return a tracestate without what is optional in it, as far as it is kept; nothing of one that is invalid."""
    members = [member for each in text.split(",") if (member := each.strip(" \t"))]
    found = [_MEMBER.fullmatch(member) for member in members]
    keys = {each[1] for each in found if each is not None}
    if len(keys) != len(members) or len(members) > STATE_MEMBERS_MAX:
        return ""
    return ",".join(_kept(members))


def _kept(members: list[str]) -> list[str]:
    """Return the members that there is room for: long ones go first, then the oldest, which stand last."""
    kept = list(members)
    while len(",".join(kept)) > STATE_LENGTH_MAX:
        long = [place for place, member in enumerate(kept) if len(member) > LONG_MEMBER]
        del kept[long[-1] if long else -1]
    return kept
