"""Renders templates and formats values. HTML is escaped, and control characters are made visible."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from tagcast_cli.filters import filter_text
from tagcast_cli.instant import readable_duration
from tagcast_cli.screen import count_noun, outcome_text
from tagcast_cli.visible import visible
from tagcast_cli.waiting import is_awake, next_attempt_words
from tagcast_client.operation import path_of

from local.console.filter_form import DIALECTS, KINDS, SCOPES

HERE = Path(__file__).parent
EXPIRING_S = 3_600
"""Expiry within this time is shown as urgent."""
SHOWN_STATES = {"not for it": "no delivery"}
"""Displayed words for states with another stored name."""
PLACES = (
    ("/", "Overview", "overview.html", "o"),
    ("/topics", "Topics", "topics.html", "t"),
    ("/search", "Search", "search.html", "s"),
    ("/tail", "Tail", "tail.html", "l"),
    ("/workbench", "Filters", "workbench.html", "f"),
    ("/groups", "Groups", "groups.html", ""),
    ("/hosts", "Hosts", "hosts.html", ""),
    ("/archive", "Archive", "archive.html", ""),
    ("/costs", "Costs", "costs.html", ""),
)
"""The navigation: address, name, template, and the key after ``g``, or "" without a key."""


@cache
def environment() -> Environment:
    """Return the template environment, which makes control characters visible and then escapes HTML.

    All calls return the same environment, so that a process compiles each template once.
    """
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        finalize=format_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (
        moment,
        readable_duration,
        span,
        filter_text,
        pairs_text,
        short,
        slug,
        outcome_text,
        size,
        rate,
        usd,
        word,
    )
    made.filters |= {each.__name__: each for each in filters}
    functions = (path_of, lane_path, message_path, expires_soon, is_awake, state_words, next_attempt, count_noun, word)
    made.globals |= {each.__name__: each for each in functions}
    made.globals |= {"places": PLACES, "kinds": KINDS, "dialects": DIALECTS, "scopes": SCOPES}
    return made


def format_value(value: Any) -> Any:
    r"""Return *value* as a page prints it: None as a dash, control characters in texts as Python escapes.

    >>> format_value("a\x1b[2J\u202e"), format_value(None), format_value(7)
    ('a\\x1b[2J\\u202e', '—', 7)
    """
    if isinstance(value, Markup):
        return value
    return "—" if value is None else visible(value) if isinstance(value, str) else value


def moment(instant: datetime | None, now: datetime | None = None) -> Markup:
    """Return an instant relative to *now*, with the exact time as a tooltip; a dash for None.

    >>> noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    >>> print(moment(datetime(2026, 5, 1, 11, 59, tzinfo=UTC), noon))
    <time datetime="2026-05-01T11:59:00+00:00" title="2026-05-01 11:59:00.000 UTC">1 min ago</time>
    """
    if instant is None:
        return Markup("—")
    away_s = (instant - (now or datetime.now(UTC))).total_seconds()
    distance = f"in {readable_duration(away_s)}" if away_s > 0 else f"{readable_duration(-away_s)} ago"
    exact = instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(instant.isoformat(), exact, distance)


def expires_soon(instant: datetime | None) -> bool:
    """Return whether an instant has passed or comes within an hour. False for None."""
    return instant is not None and (instant - datetime.now(UTC)).total_seconds() < EXPIRING_S


def next_attempt(state: str, instant: datetime | None) -> Markup:
    """Return when the head of a lane in *state* is attempted next. *instant* is the planned time.

    If *instant* is None, an attempt is in progress, or none is planned; *state* decides between the two.

    >>> print(next_attempt("blocked", None), next_attempt("paused", None))
    in progress —
    """
    words = next_attempt_words(state, instant)
    return moment(instant) if words is None else Markup(words)


def slug(text: str) -> str:
    """Return a text as a part of an element's id in HTML. Letters and digits stay; all other characters become hyphens.

    >>> slug("http://a:9/x y"), slug("http 500")
    ('http---a-9-x-y', 'http-500')
    """
    return "".join(each if each.isalnum() else "-" for each in text)


def word(state: str) -> str:
    """Return the words that pages show for a state.

    >>> word("lost_contact"), word("unverified"), word("not for it")
    ('lost contact', 'unverified', 'no delivery')
    """
    return SHOWN_STATES.get(state) or state.replace("_", " ")


def state_words(state: str) -> str:
    """Return the words that follow "the lane".

    >>> state_words("paused"), state_words("lost_contact")
    ('is paused', 'lost contact')
    """
    return word(state) if state == "lost_contact" else f"is {word(state)}"


def short(message_id: str) -> Markup:
    """Return a message id in HTML with its last six digits emphasized, because neighbouring ids differ in these digits.

    >>> print(short("07530139137769876372"))
    <span class="id"><span class="far">07530139137769</span>876372</span>
    """
    return Markup('<span class="id"><span class="far">{}</span>{}</span>').format(message_id[:-6], message_id[-6:])


def size(count: int | None) -> str:
    """Return a number of bytes as text, with a unit; a dash for None.

    >>> size(None), size(0), size(900), size(70_000)
    ('—', '0 B', '900 B', '68.4 KiB')
    """
    if count is None:
        return "—"
    return f"{count} B" if count < 1024 else f"{count / 1024:.1f} KiB"


def rate(per_s: float) -> str:
    """Return a rate per second as text, rounded.

    >>> rate(0.0), rate(0.034), rate(2.345), rate(1234.5)
    ('0', '0.03', '2.3', '1,234')
    """
    if per_s == 0:
        return "0"
    return f"{per_s:.2f}" if per_s < 1 else f"{per_s:.1f}" if per_s < 100 else f"{per_s:,.0f}"


def usd(amount: float) -> str:
    """Return an amount of US dollars as text, rounded.

    >>> usd(0.0), usd(0.004), usd(3.5), usd(12_345.6)
    ('0.00 USD', 'below 0.01 USD', '3.50 USD', '12,346 USD')
    """
    if 0 < amount < 0.01:
        return "below 0.01 USD"
    return f"{amount:,.2f} USD" if amount < 1_000 else f"{amount:,.0f} USD"


def span(seconds: float | None) -> str:
    """Return a duration as text, with units; a dash for None.

    >>> span(None), span(0.0421), span(75)
    ('—', '42 ms', '1 min 15 s')
    """
    if seconds is None:
        return "—"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else readable_duration(seconds)


def pairs_text(pairs: Mapping[str, object]) -> str:
    """Return names and values on one line; a dash if there are none.

    >>> pairs_text({"a": 1, "b": "x y"}), pairs_text({})
    ('a=1  b=x y', '—')
    """
    return "  ".join(f"{name}={value}" for name, value in pairs.items()) or "—"


def as_json(value: Mapping[str, Any] | None) -> str:
    """Return a value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def lane_path(topic: str, subscription: str, *more: str) -> str:
    """Return the address of a lane's page, or of a page below it."""
    return path_of("topics", topic, "subscriptions", subscription, *more)


def message_path(topic: str, message_id: str) -> str:
    """Return the address of a message's page."""
    return path_of("topics", topic, "messages", message_id)
