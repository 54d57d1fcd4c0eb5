"""Formats answers for people: tables, field lists, colours of states, faults."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text
from tagcast_client.operation import Json

from tagcast_cli.instant import readable_instant
from tagcast_cli.visible import VisibleConsole, visible, visible_line

_STATES = {
    "cyan": ("pending",),
    "yellow": ("blocked", "lost_contact", "retrying", "unverified"),
    "green": ("delivered", "active", "matched"),
    "red": ("discarded", "suspended", "error"),
    "bright_black": ("expired", "deleted", "unmatched"),
    "magenta": ("cancelled", "paused"),
    "blue": ("filtered", "not_matched"),
}
STATE_STYLES = {state: style for style, states in _STATES.items() for state in states}
PIPE_WIDTH = 200


def copyable(text: str, style: str = "") -> Text:
    """Return text that is printed without further line breaks, so that you can copy the commands in it."""
    return Text(text, style=style, no_wrap=True, overflow="ignore")


def console(*, to_errors: bool = False) -> Console:
    """Return a console on standard output or error that does not truncate lines in a pipe."""
    stream = sys.stderr if to_errors else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return VisibleConsole(file=stream, width=width, markup=False, highlight=False, emoji=False)


def state_text(state: object) -> Text:
    """Return a state as a coloured word, with spaces instead of underscores. None becomes a dash.

    >>> state_text("unverified").plain
    'unverified'
    """
    word = visible_line(str(state or "—"))
    return Text(word.replace("_", " "), style=STATE_STYLES.get(word, ""))


def cell(value: Any) -> Text:
    """Return any value of an answer as text for a table. Instants must be formatted already.

    >>> [cell(v).plain for v in (None, True, ["a", "b"], {"k": 1}, 3)]
    ['—', 'yes', 'a, b', 'k=1', '3']
    >>> cell(["a\\x1b[2J\\n"]).plain
    'a\\\\x1b[2J\\\\n'
    """
    match value:
        case Text():
            return value
        case None:
            return Text("—", style="dim")
        case bool():
            return Text("yes" if value else "no")
        case list() | tuple():
            return Text(visible_line(", ".join(map(str, value))) if value else "—")
        case dict():
            return Text(visible_line(" ".join(f"{name}={inner}" for name, inner in value.items())) if value else "—")
        case _:
            return Text(visible(str(value)))


def named_cell(name: str, value: Any) -> Text:
    """Return a field's value as text for a table, formatted by the field's name.

    The value of a field `…_at` is an instant. A `state` becomes a coloured word, and a `last_outcome` a readable
    outcome.

    >>> named_cell("unsigned_at", False).plain
    'no'
    """
    if name.endswith("_at") and not isinstance(value, bool):
        return Text(readable_instant(value))
    if name in ("circuit", "state", "verdict"):
        return state_text(value)
    return cell(outcome_text(value) if name == "last_outcome" else value)


class Rows:
    """Rows of cells, printed as a table. In a narrow output, instants are shorter, or each row becomes a few lines.

    `cell` formats each value. Nothing is truncated. Message ids are not wrapped.
    """

    def __init__(self, rows: Iterable[Sequence[Any]], headings: Sequence[str], title: str | None = None) -> None:
        self._rows = [[cell(value) for value in row] for row in rows]
        self._headings, self._title = headings, title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the first form that fits."""
        short = [[_shorten_instant(each) for each in row] for row in self._rows]
        for rows in (self._rows, short):
            table = self._table(rows)
            if Measurement.get(console, options.update_width(WIDEST), table).maximum <= options.max_width:
                yield table
                return
        if self._title:
            yield Text(self._title, style="italic")
        for row in short:
            yield from self._lines(row, options.max_width)

    def _table(self, rows: Sequence[Sequence[Text]]) -> Table:
        table = Table(title=self._title, title_justify="left", header_style="bold")
        for heading in self._headings:
            table.add_column(heading, overflow="fold")
        for row in rows:
            table.add_row(*row)
        return table

    def _lines(self, row: Sequence[Text], width: int) -> Iterator[Text]:
        """Yield lines with the cells of one row, each after its heading. All lines but the first are indented."""
        line = Text()
        for heading, value in zip(self._headings, row, strict=True):
            shown = Text.assemble((f"{heading} ", "dim"), value)
            if line and line.cell_len + 2 + shown.cell_len > width:
                yield line
                line = Text("  ").append_text(shown)
            else:
                line.append("  " if line else "").append_text(shown)
        yield line


WIDEST = 100_000
_INSTANT = re.compile(r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC \((?P<distance>[^)]+)\)")


def _shorten_instant(value: Text) -> Text:
    """Return an instant as its distance from now. Return any other cell unchanged.

    >>> _shorten_instant(Text("2026-05-02 12:00:00 UTC (in 1 d)")).plain, _shorten_instant(Text("12")).plain
    ('in 1 d', '12')
    """
    found = _INSTANT.fullmatch(value.plain)
    return value if found is None else Text(found["distance"])


Column = str | Callable[[Json], Any]
"""A column of a table: the path of a field, such as ``head.attempts``, or a function of the item."""


def items_table(items: Iterable[Json], columns: Mapping[str, Column]) -> Rows:
    """Return a table with a row for each item. *columns* maps each heading to the path of a field, or to a function."""
    return Rows(([_value(item, column) for column in columns.values()] for item in items), list(columns))


def _value(item: Json, column: Column) -> Any:
    if callable(column):
        return column(item)
    *outer, name = column.split(".")
    for each in outer:
        item = item.get(each) or {}
    return named_cell(name, item.get(name))


def fields_table(answer: Json, *, leave_out: Iterable[str] = ()) -> Table:
    """Return the fields of one resource, one per line, without those in *leave_out*."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    skipped = set(leave_out)
    for name, value in answer.items():
        if name not in skipped:
            table.add_row(name.replace("_", " "), named_cell(name, value))
    return table


def fault_lines(problem: Json, status: int) -> Text:
    """Return a *problem* of the API as lines: its title, HTTP *status* and detail, and each fault with its pointer."""
    lines = Text()
    lines.append("error: ", style="bold red")
    title = visible_line(str(problem.get("title") or "refused"))
    lines.append(title if title.endswith(f" {status}") else f"{title} ({status})", style="bold")
    if detail := problem.get("detail"):
        lines.append(f"\n  {visible(str(detail))}")
    faults = problem.get("errors")
    for fault in faults if isinstance(faults, list) else []:
        pointer = fault.get("pointer") if isinstance(fault, dict) else None
        text = fault.get("detail", "") if isinstance(fault, dict) else fault
        lines.append("\n  • ")
        if pointer:
            lines.append(visible_line(str(pointer)), style="cyan")
            lines.append("  ")
        lines.append(visible_line(str(text)))
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and (request_id := problem.get("request_id")):
        lines.append(f"\n  request {visible_line(str(request_id))}: see the log of the service", style="dim")
    differs = problem.get("difference")
    for sentence in differs if isinstance(differs, list) else []:
        lines.append(f"\n  • {visible_line(str(sentence))}")
    return lines


OUTCOMES: Mapping[str, str] = {
    "circuit": "not attempted: host down (circuit open)",
    "filter_error": "the filter function gave no verdict",
    "not acknowledged in time": "nacked, or not acknowledged in time",
    "unverified": "not attempted: the endpoint is unverified",
    "rate": "not attempted: rate limit reached",
}
"""Readable texts for outcomes that did not come from an endpoint."""


def outcome_text(outcome: str | None) -> str | None:
    """Return the *outcome* of an attempt as a readable text, or the reason why there was no attempt. None stays None.

    >>> outcome_text("http 500"), outcome_text("circuit"), outcome_text(None)
    ('http 500', 'not attempted: host down (circuit open)', None)
    """
    return None if outcome is None else OUTCOMES.get(outcome, outcome)


def count_noun(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun. *many* is the plural, by default *one* with an s.

    >>> count_noun(1, "lane"), count_noun(1_200, "lane"), count_noun(2, "delivery", "deliveries")
    ('1 lane', '1,200 lanes', '2 deliveries')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
