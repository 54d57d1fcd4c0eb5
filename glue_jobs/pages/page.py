"""Self-contained HTML reports: one file with its style and plots, without external resources."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

from tagcast.instant import rfc3339

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "delivered": "#2a9d6f",
    "discarded": "#d1495b",
    "expired": "#e08e2b",
    "cancelled": "#8d8d99",
    "filtered": "#5b7db1",
    "pending": "#a98bd1",
    "line": "#3b82c4",
    "second": "#e08e2b",
    "third": "#d1495b",
}
_INK = "#123456"
STYLE = """
:root{color-scheme:light dark;--ink:#1c2330;--soft:#5d6778;--line:#dde2ea;--paper:#ffffff;--card:#f6f8fb;
--good:#1f7a55;
--bad:#b3283c;--warn:#a05a00}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaf1;--soft:#9aa5b8;--line:#333b49;--paper:#151a22;--card:#1d242f;
--good:#55c795;--bad:#ff8492;--warn:#f0b25a}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1080px;margin:0 auto;padding:32px 24px 64px}
h1{font-size:26px;line-height:1.25;margin:0 0 4px}h2{font-size:18px;margin:40px 0 10px}h3{font-size:15px;
margin:20px 0 6px}
p{margin:6px 0;max-width:80ch}.soft{color:var(--soft)}.good{color:var(--good)}.bad{color:var(--bad)}
.warn{color:var(--warn)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:22px 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px}
.card b{display:block;font-size:20px;line-height:1.25;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.card span{color:var(--soft);font-size:13px}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
th{text-align:left;color:var(--soft);font-weight:600;border-bottom:2px solid var(--line);padding:6px 10px;
vertical-align:bottom}
td{border-bottom:1px solid var(--line);padding:6px 10px;vertical-align:top}
.wide td:not(:first-child,:last-child),.n{white-space:nowrap}.wide td:first-child{min-width:16em;overflow-wrap:anywhere}
.wide td:last-child:not(.n){min-width:12em}.n{text-align:right}
code{font:13px/1.5 ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}
figure{margin:14px 0}figure svg{width:100%;height:auto;color:var(--ink)}figcaption{color:var(--soft);font-size:13px}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 12px;overflow-x:auto;
font-size:13px;white-space:pre-wrap;overflow-wrap:anywhere}
details{margin:8px 0}summary{cursor:pointer;overflow-wrap:anywhere}
h1,h2,p,figcaption{overflow-wrap:anywhere}
@media (max-width:720px){
main{padding:18px 14px 40px}h1{font-size:21px}
thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
table,tbody{display:block}tr{display:grid;grid-template-columns:1fr 1fr;gap:1px 12px;padding:8px 0;
border-bottom:1px solid var(--line)}
td{display:block;border:0;padding:0;overflow-wrap:anywhere;white-space:normal!important;
text-align:left!important;min-width:0!important}
.wide td:first-child{grid-column:1/-1;font-weight:600}
td[data-label]:not([data-label=""])::before{content:attr(data-label) " ";color:var(--soft);font-size:12px}
figure svg{min-width:600px}figure div{overflow-x:auto}
}
"""


def document(verdict: str, what: str, *parts: str) -> str:
    """Return an HTML report about *what*, with the sections *parts*. The title has *verdict* first, and then *what*.

    The console lists reports by their titles, so the list shows the verdicts.
    """
    title = f"{verdict} · {what}"
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
    view = '<meta name="viewport" content="width=device-width,initial-scale=1">'
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    foot = f'<p class="soft">Made by tagcast on {made} UTC. All times are UTC.</p>'
    return f"{head}{view}<style>{STYLE}</style></head><body><main>{''.join(parts)}{foot}</main></body></html>\n"


def paragraph(text: str, tone: str = "") -> str:
    """Return a paragraph of plain text. *tone* is a class of ``STYLE``, such as ``bad``."""
    return f'<p class="{tone}">{escape(text)}</p>'


def headline(text: str, below: str, tone: str = "") -> str:
    """Return the headline *text* of a report, with the subtitle *below*. *tone* is a class of ``STYLE`` (``bad``)."""
    return f'<h1 class="{tone}">{escape(text)}</h1><p class="soft">{escape(below)}</p>'


def section(title: str, *parts: str) -> str:
    """Return a section of the report with its title."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def cards(pairs: Iterable[tuple[str, object, str]]) -> str:
    """Return boxes side by side. *pairs* has the label, the value and the tone (a class of ``STYLE``) of each box."""
    made = (
        f'<div class="card"><b class="{tone}">{format_value(value)}</b><span>{escape(what)}</span></div>'
        for what, value, tone in pairs
    )
    return f'<div class="cards">{"".join(made)}</div>'


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with the column titles *heads*, or "None." without *rows*. Numbers are right-aligned."""
    body = [list(row) for row in rows]
    if not body:
        return paragraph("None.")
    numeric = [all(isinstance(row[n], int | float) or row[n] is None for row in body) for n in range(len(heads))]
    classes = [' class="n"' if each else "" for each in numeric]
    head = "".join(f"<th{mark}>{escape(name)}</th>" for name, mark in zip(heads, classes, strict=True))
    labels = [f' data-label="{escape(name)}"' if n else "" for n, name in enumerate(heads)]
    lines = (
        "".join(
            f"<td{mark}{label}>{format_value(value)}</td>"
            for value, mark, label in zip(row, classes, labels, strict=True)
        )
        for row in body
    )
    return scrolling_table(f"<tr>{head}</tr>", "".join(f"<tr>{line}</tr>" for line in lines))


def scrolling_table(head: str, rows: str) -> str:
    """Return a table that scrolls sideways, with the mouse or the keyboard. *head* and *rows* are in HTML."""
    made = f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"
    return f'<div class="wide" tabindex="0" role="group" aria-label="Table">{made}</div>'


def format_value(value: object) -> str:
    """Return a value in readable form.

    >>> format_value(1234567), format_value(None), format_value(0.25)
    ('1,234,567', '—', '0.25')
    """
    match value:
        case None:
            return "—"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}".rstrip("0").rstrip(".")
        case _:
            return escape(str(value))


def duration(milliseconds: float | None) -> str:
    """Return a duration in readable form.

    >>> duration(250), duration(61_000), duration(7_500), duration(90_000_000), duration(None)
    ('250 ms', '1 min 1 s', '7.5 s', '25 h', '—')
    """
    if milliseconds is None:
        return "—"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.3g} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s" if seconds % 60 >= 1 else f"{int(seconds // 60)} min"
    hours, minutes = int(seconds // 3600), int(seconds % 3600 // 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def instant(milliseconds: int) -> str:
    """Return an instant on one line, in UTC.

    >>> instant(1_700_000_000_123).replace(chr(0x2011), "-").replace(chr(0xA0), " ")
    '2023-11-14 22:13:20.123'
    """
    return rfc3339(milliseconds)[:-1].replace("-", "\u2011").replace("T", "\u00a0")


def count_noun(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun.

    >>> count_noun(1, "delivery", "deliveries"), count_noun(1_200, "violation")
    ('1 delivery', '1,200 violations')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def share(part: float, whole: float) -> str:
    """Return *part* of *whole* in percent. The result is 100 % only if both are equal.

    >>> share(1, 3), share(99_999, 100_000), share(0, 0)
    ('33.3 %', '99.999 %', '—')
    """
    if not whole:
        return "—"
    percent = 100 * part / whole
    for digits in (1, 2, 3, 4):
        text = f"{percent:.{digits}f}"
        if part == whole or not text.startswith("100"):
            break
    else:
        text = "99.9999"
    text = text.rstrip("0").rstrip(".")
    return f"{text} %"


def figure(caption: str, draw: Callable[[Axes], None]) -> str:
    """Return a plot as inline SVG in the text colour of the report. *draw* draws on the plot's axes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "tagcast",
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "text.color": _INK,
        "axes.labelcolor": _INK,
        "axes.edgecolor": _INK,
        "xtick.color": _INK,
        "ytick.color": _INK,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "grid.alpha": 0.15,
        "grid.color": _INK,
        "axes.axisbelow": True,
    }
    with mpl.rc_context(settings):
        made, axes = pyplot.subplots(figsize=(9, 2.6), layout="constrained")
        draw(axes)
        out = io.StringIO()
        made.savefig(out, format="svg", transparent=True, metadata={"Date": None})
        pyplot.close(made)
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    svg = re.sub(r"font: ?([0-9.]+)px [^;\"]+", r"font: \1px system-ui, sans-serif", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    seen = f'<div tabindex="0" role="img" aria-label="{escape(caption)}">{svg}</div>'
    return f"<figure>{seen}<figcaption>{escape(caption)}</figcaption></figure>"
