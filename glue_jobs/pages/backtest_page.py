"""A backtest as an HTML report: the effect of a candidate filter, with an explanation for each sample message."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from tagcast.instant import rfc3339

from glue_jobs.pages import delivery_page, page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LISTED_MAX = 200
WORDS = {"newly_matched": "newly matched", "newly_unmatched": "no longer matched", "both": "matched by both"}
COUNTED = ("both", "newly_matched", "newly_unmatched", "failed", "unjudged")
COLOURS = {"both": "cancelled", "newly_matched": "delivered", "newly_unmatched": "discarded"}


def backtest_page(result: Mapping[str, Any]) -> str:
    """Return the HTML report of a backtest."""
    below = f"Topic {result['topic']}, {result['window'].replace('_', ' to ')}, {result['messages']:,} messages"
    if "comparison" in result:
        return _comparison(result, below)
    return _counts(result, below)


def _what(result: Mapping[str, Any]) -> str:
    """Return the subject of the backtest, for the report's title."""
    return f"backtest of {result['topic']}, {result['window'].replace('_', ' to ')}"


def _code(value: object) -> str:
    if value is None:
        return page.paragraph("No filter: every message matches.")
    return f"<pre>{escape(json.dumps(value, ensure_ascii=False))}</pre>"


def _comparison(result: Mapping[str, Any], below: str) -> str:
    hours = result["comparison"]
    sums = {name: sum(hour[name] for hour in hours) for name in COUNTED}
    new, gone = sums["newly_matched"], sums["newly_unmatched"]
    title = "The candidate changes nothing" if not new + gone else f"{new:,} more, {gone:,} fewer messages"
    cards = [
        ("messages", result["messages"], ""),
        ("matched by both", sums["both"], ""),
        ("newly matched", new, "good" if new else ""),
        ("no longer matched", gone, "bad" if gone else ""),
        ("errors of the candidate", sums["failed"], "warn" if sums["failed"] else ""),
        *([("not evaluated: contents not archived", sums["unjudged"], "warn")] if sums["unjudged"] else []),
    ]
    verdict = f"{title} for {result['subscription']}"
    parts = [
        page.headline(verdict, below),
        page.cards(cards),
        page.section("Filters", "<h3>Candidate</h3>", _code(result["candidates"][0]["filter"]), "<h3>Now</h3>",
                     _code(result["current"])),
    ]  # fmt: skip
    if hours:
        caption = "Messages by hour of acceptance: matched by both filters, newly matched, no longer matched."
        parts.append(page.section("Hour by hour", page.figure(caption, lambda axes: _bars(axes, hours, COLOURS))))
    for way in ("newly_matched", "newly_unmatched"):
        found = [sample for sample in result["samples"] if sample["way"] == way]
        if found:
            newest = f"{WORDS[way][0].upper()}{WORDS[way][1:]}: the newest {len(found)} of {sums[way]:,}"
            parts.append(page.section(newest, *(_sample(sample) for sample in found)))
    return page.document(verdict, _what(result), *parts)


def _counts(result: Mapping[str, Any], below: str) -> str:
    candidates = result["candidates"]
    matched = [each for each in candidates if each["matched"]]
    title = f"{len(candidates):,} candidates, {len(matched):,} with matches"
    if len(candidates) == 1:
        share = page.share(candidates[0]["matched"], result["messages"])
        title = f"The candidate matches {candidates[0]['matched']:,} messages ({share})"
    if not result["messages"]:
        title = "No messages in this window"
    ranked = sorted(candidates, key=lambda each: (-each["matched"], each["name"]))[:LISTED_MAX]
    rows = [
        (each["name"], each["matched"], page.share(each["matched"], result["messages"]), each["failed"],
         each["unjudged"], json.dumps(each["filter"], ensure_ascii=False)[:120])
        for each in ranked
    ]  # fmt: skip
    parts = [page.headline(title, below)]
    if len(candidates) == 1 and result["hours"]:
        caption = "Messages that the candidate matches, by hour of acceptance."
        hours = result["hours"]
        parts.append(page.figure(caption, lambda axes: _bars(axes, hours, {"matched": "line"})))
    heads = ("Candidate", "Matched", "Share", "Failed", "Not evaluated", "Filter")
    rest = len(candidates) - len(rows)
    more = page.paragraph(f"{rest:,} more are in backtest.json and the table hours.", "soft") if rest else ""
    return page.document(title, _what(result), *parts, page.section("Candidates", page.table(heads, rows), more))


def _bars(axes: Axes, hours: Sequence[Mapping[str, Any]], colours: Mapping[str, str]) -> None:
    delivery_page.draw_stacked_bars(
        axes, hours, [(name, WORDS.get(name, name), colour) for name, colour in colours.items()]
    )


def _sample(sample: Mapping[str, Any]) -> str:
    read = {name: sample[name] for name in ("tags", "routing_key", "properties") if sample[name]}
    head = f"<summary><code>{sample['message_id']}</code> {rfc3339(sample['accepted_at'])} "
    head += f"<code>{escape(json.dumps(read, ensure_ascii=False)[:160])}</code></summary>"
    trees = "".join(
        f"<h3>{name}</h3><pre>{escape(chr(10).join(_lines(sample[key], 0)))}</pre>"
        for name, key in (("Candidate", "candidate"), ("Now", "current"))
    )
    return f"<details>{head}{trees}</details>"


def _lines(part: Mapping[str, Any], depth: int) -> list[str]:
    """Return an explanation as indented lines, without recursion: expressions may be deep."""
    lines: list[str] = []
    pending: list[tuple[Mapping[str, Any], int]] = [(part, depth)]
    while pending:
        this, level = pending.pop()
        mark = {True: "✓", False: "✗"}.get(this["value"], "?") if isinstance(this["value"], bool) else "?"
        note = f"  ({this['note']})" if this["note"] else ""
        lines.append(f"{'  ' * min(level, 20)}{mark} {this['text']}{note}")
        pending.extend((child, level + 1) for child in reversed(this["children"]))
    return lines
