"""The audit's certificate as an HTML report: the proof, the violations, and the limits of the proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glue_jobs.pages import page

LIMITS = (
    "Attempts are recorded at their end. An attempt that a crash kept from being recorded is not checked. An attempt "
    "that began before the expiry may end within its timeout after it.",
    "The verdicts of filter functions cannot be evaluated again. The audit checks that the function was called.",
    "The queue decides the order and leaves no record of it. In a backlog, positions prove the order. For direct "
    "pushes the audit proves only that none passed a closed lane.",
    "Records have whole seconds, and clocks differ. Differences below the stated tolerance are not checked.",
)


def listing(names: Sequence[str]) -> str:
    """Return *names* as text, at most seven of them.

    >>> listing(["2026-11-20", "2026-11-21"]), listing(["a"] * 9)
    ('2026-11-20, 2026-11-21', 'a, a, a, a, a, a, a and 2 more')
    """
    rest = f" and {len(names) - 7:,} more" if len(names) > 7 else ""
    return f"{', '.join(names[:7])}{rest}"


def find_gaps(certificate: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each kind of gap that *certificate* names. The list is empty if the archive has none.

    Gaps are days without messages, unreadable records, and unequal records of one id. A sentence begins with a
    lower-case letter and has no full stop.
    """
    sentences = {
        "days_without_messages": "the archive has no message of",
        "set_aside": "records that this audit cannot read are in",
        "conflicts": "records differ from others of the same id, which were dropped:",
    }
    return [f"{words} {listing(certificate[name])}" for name, words in sentences.items() if certificate[name]]


def certificate_page(certificate: Mapping[str, Any], kinds: Mapping[str, str]) -> str:
    """Return the HTML report of a certificate. *kinds* maps each kind of violation to the promise that it breaks."""
    counts, found = certificate["counts"], certificate["violations"]
    title, tone = _title(certificate)
    where = "all topics" if certificate["topic"] is None else f"topic {certificate['topic']}"
    subject = certificate.get("subject")
    if subject is not None:
        where, counts = f"{where}, messages with {subject['property']}", {**counts, **subject["counts"]}
    below = f"Audit of {certificate['window'].replace('_', ' to ')}, {where}, as of {certificate['as_of']}"
    below = ". ".join((below, *(f"{each[0].upper()}{each[1:]}" for each in find_gaps(certificate))))
    ended = counts["entries"] - counts["within_life"]
    cards = [
        ("messages", counts["messages"], ""),
        ("deliveries", counts["entries"], ""),
        ("ended", ended, ""),
        ("still open", counts["within_life"], ""),
        ("filters evaluated again", counts["evaluated"], ""),
        ("violations", found, "bad" if found else "good"),
    ]
    return page.document(
        title,
        f"audit of {certificate['window'].replace('_', ' to ')}, {where}",
        page.headline(title, below, tone),
        page.cards(cards),
        _violations(certificate) if found else "",
        "" if subject is None else _subject(subject),
        page.section("Promises", _promises(certificate["by_kind"], kinds)),
        page.section("Deliveries by end", _ends(counts)),
        page.section("Checks", _looked_at(counts, certificate["skew_ms"])),
        page.section("Limits of the proof", *(page.paragraph(text) for text in LIMITS)),
        page.section("Merkle roots", _roots(certificate)),
    )


def _title(certificate: Mapping[str, Any]) -> tuple[str, str]:
    found = certificate["violations"]
    if found:
        return page.count_noun(found, "violation"), "bad"
    if certificate["judged"]:
        return (
            f"Every promise was kept: {page.count_noun(certificate['judged'], 'check')}, no violation",
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
    head = "<tr><th>Result</th><th>Promise</th><th>Kind of violation</th></tr>"
    return page.scrolling_table(head, "".join(rows))


def _violations(certificate: Mapping[str, Any]) -> str:
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
    is_in_table = certificate["topic"] is None and "subject" not in certificate
    where = "in the table audit_violations" if is_in_table else "not listed"
    more = page.paragraph(f"{rest:,} more are {where}.", "soft") if rest > 0 else ""
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
    labels = {"within_life": "still open"}
    rows = [(labels.get(name, name), counts[name], page.share(counts[name], counts["entries"])) for name in names]
    return page.table(("End", "Deliveries", "Share"), rows)


def _looked_at(counts: Mapping[str, int], skew_ms: int) -> str:
    rows = (
        ("pairs of message and filter evaluated again", counts["evaluated"]),
        ("late entries: added for groups created after the message", counts["late_entries"]),
        ("late entries not checked: body not archived, or filter unreadable", counts["late_unjudged"]),
        ("matches that a filter function decided later", counts["matches_judged_later"]),
        (
            "matches, accepted after that instant, of filters that are not in the archive",
            counts["matches_of_unknown_filters"],
        ),
        ("missing matches near the deletion of a subscription, not provable", counts["misses_not_provable"]),
        ("filters not checked: they read a body that was not archived", counts["unjudged_without_body"]),
        ("filters not checked: this release cannot read them", counts["unreadable_filters"]),
        ("erased messages; the stored verdicts of their filters count", counts["erased"]),
        ("messages whose body was deleted by its age; stored verdicts count", counts["bodies_gone"]),
        ("messages whose properties were deleted by their age; stored verdicts count", counts["properties_gone"]),
        ("replayed messages (for one subscription each)", counts["replays"]),
        ("recorded attempts of deliveries in backlogs", counts["failed_attempts"]),
        ("waits between attempts / of these checked", f"{counts['gaps']:,} / {counts['gaps_judged']:,}"),
        ("deliveries in backlogs of ordered lanes", counts["backlog_of_ordered_lanes"]),
        ("direct deliveries to ordered lanes", counts["direct_deliveries"]),
        ("direct deliveries before a message accepted earlier (no violation)", counts["before_an_earlier_one"]),
        ("tolerance for clocks", f"{skew_ms:,} ms"),
    )
    return page.table(("Check", "Number"), [(what, page.format_value(number)) for what, number in rows])


def _roots(certificate: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{each['kind']}</td><td>{each['dt']}</td><td class='n'>{each['records']:,}</td>"
        f"<td><code>{each['root']}</code></td></tr>"
        for each in certificate["partitions"]
    )
    head = "<tr><th>Records</th><th>Day</th><th class='n'>Number</th><th>Root</th></tr>"
    whole = f"<p>Root of all: <code>{certificate['merkle_root']}</code></p>"
    return whole + page.scrolling_table(head, rows)
