"""The audit's certificate as a page: the proof, the violations, and the limits of the proof."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glue_jobs.pages import page

LIMITS = (
    "An attempt is known by its end. One that a crash kept from being recorded is not seen, and one that began before "
    "the end of a life may end within its timeout after it.",
    "What a filter function said cannot be evaluated again; that it was asked can.",
    "The order is the queue's, and the queue leaves no record: in a backlog it is proved by position, on the direct "
    "way only that nothing is pushed past a closed lane.",
    "Times of changes are whole seconds, and clocks differ: what is closer together than the stated tolerance is not "
    "judged.",
)


def certificate_page(certificate: Mapping[str, Any], kinds: Mapping[str, str]) -> str:
    """Return the page of a certificate."""
    counts, found = certificate["counts"], certificate["violations"]
    title, tone = _title(certificate)
    where = "all topics" if certificate["topic"] is None else f"topic {certificate['topic']}"
    subject = certificate.get("subject")
    if subject is not None:
        where, counts = f"{where}, messages with {subject['property']}", {**counts, **subject["counts"]}
    below = f"Audit of {certificate['window'].replace('_', ' to ')}, {where}, as of {certificate['as_of']}"
    ended = counts["entries"] - counts["within_life"]
    cards = [
        ("messages", counts["messages"], ""),
        ("deliveries pending", counts["entries"], ""),
        ("of them ended", ended, ""),
        ("within their life", counts["within_life"], ""),
        ("matches evaluated again", counts["evaluated"], ""),
        ("violations", found, "bad" if found else "good"),
    ]
    return page.document(
        title,
        f"audit of {certificate['window'].replace('_', ' to ')}, {where}",
        page.headline(title, below, tone),
        page.cards(cards),
        _listed(certificate) if found else "",
        "" if subject is None else _subject(subject),
        page.section("Promises", _promises(certificate["by_kind"], kinds)),
        page.section("How it ended", _ends(counts)),
        page.section("What was looked at", _looked_at(counts, certificate["skew_ms"])),
        page.section("What this cannot prove", *(page.paragraph(text) for text in LIMITS)),
        page.section("Merkle roots", _roots(certificate)),
    )


def _title(certificate: Mapping[str, Any]) -> tuple[str, str]:
    found = certificate["violations"]
    if found:
        return page.count_noun(found, "violation"), "bad"
    if certificate["judged"]:
        return (
            f"Every promise was kept, as far as {page.count_noun(certificate['judged'], 'judgement')} can tell",
            "good",
        )
    if certificate["counts"]["messages"]:
        return "Nothing was proved: no delivery had ended, and no filter could be evaluated again", "warn"
    return "Nothing was proved: no message was accepted in this window", "warn"


def _promises(by_kind: Mapping[str, int], kinds: Mapping[str, str]) -> str:
    rows = []
    for kind, sentence in kinds.items():
        broken = by_kind[kind]
        mark = f'<span class="bad">✗ {broken:,}</span>' if broken else '<span class="good">✓ held</span>'
        rows.append(
            f"<tr><td>{mark}</td><td>{sentence[0].upper()}{sentence[1:]}.</td><td><code>{kind}</code></td></tr>"
        )
    head = "<tr><th></th><th>Promise</th><th>Kind of violation</th></tr>"
    return f'<div class="wide"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def _listed(certificate: Mapping[str, Any]) -> str:
    listed = certificate["listed"]
    heads = ("Kind", "Topic", "Message", "Subscription", "At", "What")
    rows = [
        (
            each["kind"],
            each["topic"],
            each["message_id"],
            None if each["ordinal"] is None else f"#{each['ordinal']}",
            None if each["at"] is None else page.instant(each["at"]),
            each["detail"],
        )
        for each in listed
    ]
    rest = certificate["violations"] - len(listed)
    more = page.paragraph(f"{rest:,} more are in the table audit_violations.", "soft") if rest > 0 else ""
    return page.section("Violations", page.table(heads, rows), more)


def _subject(subject: Mapping[str, Any]) -> str:
    none: Mapping[str, Any] = {"subscription": None, "state": "unmatched", "attempts": None, "ended_at": None}
    rows = [
        (
            each["message_id"],
            page.instant(each["accepted_at"]),
            ", ".join(each["tags"] or ()) or None,
            of["subscription"],
            of["state"],
            of["attempts"],
            page.instant(of["ended_at"]) if of["ended_at"] else None,
        )
        for each in subject["listed"]
        for of in each["deliveries"] or (none,)
    ]
    rest = subject["counts"]["messages"] - len(subject["listed"])
    more = page.paragraph(f"{rest:,} more messages are not listed.", "soft") if rest > 0 else ""
    heads = ("Message", "Accepted", "Tags", "Subscription", "State", "Attempts", "Ended")
    return page.section(f"Messages with {subject['property']}", page.table(heads, rows), more)


def _ends(counts: Mapping[str, int]) -> str:
    names = ("delivered", "discarded", "expired", "cancelled", "filtered", "within_life")
    rows = [(name.replace("_", " "), counts[name], page.share(counts[name], counts["entries"])) for name in names]
    return page.table(("End", "Deliveries", "Share"), rows)


def _looked_at(counts: Mapping[str, int], skew_ms: int) -> str:
    rows = (
        ("pairs of message and filter evaluated again", counts["evaluated"]),
        ("entries that were added for groups that are younger than their messages", counts["late_entries"]),
        ("of them by filters that read a body that was not archived, not judged", counts["late_unjudged"]),
        ("matches whose verdict a filter function gave later", counts["matches_judged_later"]),
        ("matches of filters that the archive does not know", counts["matches_of_unknown_filters"]),
        ("misses near the removal of a subscription, not provable", counts["misses_not_provable"]),
        ("matches that read a body that was not archived, not judged", counts["unjudged_without_body"]),
        ("messages that were erased; the verdicts of their filters were kept", counts["erased"]),
        ("messages whose body went by its age; the verdicts of filters that read it were kept", counts["bodies_gone"]),
        ("messages whose properties went by their age; the same", counts["properties_gone"]),
        ("replayed messages (for one subscription each)", counts["replays"]),
        ("recorded attempts of deliveries that waited", counts["failed_attempts"]),
        ("gaps between attempts / of them judged", f"{counts['gaps']:,} / {counts['gaps_judged']:,}"),
        ("places in backlogs of ordered lanes", counts["backlog_of_ordered_lanes"]),
        ("direct deliveries to ordered lanes", counts["direct_deliveries"]),
        ("of them before one accepted earlier (no violation)", counts["before_an_earlier_one"]),
        ("tolerance for clocks", f"{skew_ms:,} ms"),
    )
    return page.table(("What", "Number"), [(what, page.format_value(number)) for what, number in rows])


def _roots(certificate: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{each['kind']}</td><td>{each['dt']}</td><td class='n'>{each['records']:,}</td>"
        f"<td><code>{each['root']}</code></td></tr>"
        for each in certificate["partitions"]
    )
    head = "<tr><th>Records</th><th>Day</th><th class='n'>Number</th><th>Root</th></tr>"
    whole = f"<p>Root of all: <code>{certificate['merkle_root']}</code></p>"
    return f'{whole}<div class="wide"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'
