"""Faults planted into the lines of a history: records lost, doubled, or not as the service would write them."""

import json
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

from tests.spark.oracle.histories import Told

Fields = dict[str, Any]
ENDS = ("delivered", "discarded", "expired", "cancelled", "filtered")
SHIFTS_MS = (-7_200_000, -400_000, -30_000, -3_000, -999, 999, 3_000, 30_000, 400_000, 90_000_000)
EVENT_PATTERN = json.dumps({"kind": "event_pattern", "pattern": {"price": [{"numeric": [">", 3]}]}})
FILTERS = (
    *('{"kind": "tags", "tags": ["a"]}', '{"kind": "tags", "tags": ["b", "c"]}', None, EVENT_PATTERN, EVENT_PATTERN),
    '{"kind": "function", "function": "judge", "on_error": "drop"}',
)
DAMAGED = ('{"record_id": "cut', "[1]", "null", '"text"', '{"record_id": "1", "changed_at": "noon"}', '{"topic": "t"}')


class Plot:
    """The lines of one history, to be changed: all copies of a record at once, or one of them."""

    def __init__(self, dice: Random, lines: list[Told]) -> None:
        self.dice = dice
        self.lines = lines
        self.damaged: list[tuple[str, str]] = []

    def some(self, kind: str, wanted: Callable[[Fields], object] = lambda fields: True) -> Told | None:
        found = [each for each in self.lines if each.kind == kind and wanted(each.fields)]
        return self.dice.choice(found) if found else None

    def change(self, one: Told | None, **changes: Any) -> None:
        """Change all copies of a record; None takes a field away."""
        key = None if one is None else one.key
        for each in self.lines:
            if each.key == key:
                each.fields = known({**each.fields, **changes})

    def add(self, one: Told, **changes: Any) -> None:
        self.lines.append(Told(one.kind, known({**deepcopy(one.fields), **changes}), self.dice.choice((0, 1))))


def known(fields: Fields) -> Fields:
    return {name: value for name, value in fields.items() if value is not None}


def ended(fields: Fields) -> bool:
    return fields["state"] in ENDS and "removed_by" not in fields


def lose(plot: Plot) -> None:
    kind = plot.dice.choice(("deliveries", "deliveries", "deliveries", "messages", "lanes", "subscriptions"))
    one = plot.some(kind, lambda fields: fields.get("part") != "topic")
    plot.lines = [each for each in plot.lines if one is None or each.key != one.key]


def end_otherwise(plot: Plot) -> None:
    if one := plot.some("deliveries", ended):
        plot.change(
            one, state=plot.dice.choice(ENDS), outcome=plot.dice.choice((one.fields.get("outcome"), "http 500"))
        )


def end_twice(plot: Plot) -> None:
    if one := plot.some("deliveries", ended):
        later = one.fields["changed_at"] + plot.dice.choice(SHIFTS_MS)
        version = f"{one.fields['record_id']}2"
        plot.add(one, record_id=version, state=plot.dice.choice(ENDS), changed_at=max(0, later))


def contradict(plot: Plot) -> None:
    """Two lines of one record that differ: one of them is kept."""
    if one := plot.some(plot.dice.choice(("deliveries", "messages", "lanes"))):
        name = plot.dice.choice(
            [name for name in one.fields if name in ("outcome", "tags", "state", "attempts")] or [""]
        )
        other = {"outcome": "http 418", "tags": ["c"], "state": "blocked", "attempts": 9}
        plot.add(one, **({name: other[name]} if name else {"schema_version": 2}))


def shift_instant(plot: Plot) -> None:
    names = ("last_attempt_at", "last_attempt_at", "changed_at", "round_at", "added_at")
    name = plot.dice.choice(names)
    if one := plot.some("deliveries", lambda fields: name in fields):
        plot.change(one, **{name: max(0, one.fields[name] + plot.dice.choice(SHIFTS_MS))})


def miscount(plot: Plot) -> None:
    if one := plot.some("deliveries", lambda fields: fields["attempts"] > 0 or fields["state"] == "discarded"):
        plot.change(one, attempts=max(0, one.fields["attempts"] + plot.dice.choice((-2, -1, 1, 2, 200))))


def displace(plot: Plot) -> None:
    if one := plot.some("deliveries", lambda fields: "position" in fields):
        plot.change(one, position=f"{plot.dice.randrange(9):020d}")


def drop_by_function(plot: Plot) -> None:
    plot.change(plot.some("deliveries", ended), state="discarded", outcome="filter_error")


def expire_young(plot: Plot) -> None:
    if one := plot.some("deliveries", ended):
        at = one.fields["accepted_at"] + 1_000
        plot.change(one, state="expired", attempts=0, last_attempt_at=None, outcome=None, changed_at=at)


def remove_owed(plot: Plot) -> None:
    if one := plot.some("deliveries", ended):
        by = plot.dice.choice(("ttl", "deletion"))
        name = f"{one.fields['topic']}.{one.fields['message_id']}.{one.fields['ordinal']}.x"
        plot.change(one, state="pending", removed_by=by, attempts=0, record_id=name, last_attempt_at=None)


def push_past_a_closed_lane(plot: Plot) -> None:
    if closed := plot.some("lanes", lambda fields: fields["previous_state"] == "active" != fields["state"]):
        at, ordinal = (
            closed.fields["changed_at"] + plot.dice.choice((0, 1_500, 2_500, 40_000)),
            closed.fields["ordinal"],
        )
        one = plot.some("deliveries", lambda fields: ended(fields) and fields["ordinal"] == ordinal)
        plot.change(one, state="delivered", round_at=at, last_attempt_at=at + plot.dice.choice((20, 900)))


def owe_otherwise(plot: Plot) -> None:
    if one := plot.some("messages"):
        matched = {*one.fields["matched"]} ^ {plot.dice.choice((1, 1, 2, 7))}
        plot.change(one, matched=sorted(matched))


def write_otherwise(plot: Plot) -> None:
    """Other contents: filters judge otherwise, and event patterns have bodies to read."""
    if one := plot.some("messages"):
        plot.change(one, tags=plot.dice.choice((["a"], ["b"], ["Aa", "c"], [])), properties={"price": "9"})
    for each in plot.lines:
        if each.kind == "messages" and (number := int(each.fields["message_id"])) % 2:
            each.fields["body"] = json.dumps({"price": number % 7})


def replay(plot: Plot) -> None:
    one, of = plot.some("messages"), plot.some("messages")
    if one and of and one.fields["message_id"] > of.fields["message_id"]:
        plot.change(one, replay_of=of.fields["message_id"])


def other_version(plot: Plot) -> None:
    if one := plot.some("messages"):
        version = one.fields["subscriptions_version"] + plot.dice.choice((-1, 1))
        plot.change(one, subscriptions_version=max(0, version))


def match_with_outdated_filters(plot: Plot) -> None:
    """A message that was matched at a version of its topic from before a filter of hours ago."""
    one, other = plot.some("messages"), plot.some("subscriptions", lambda fields: fields["part"] == "filter")
    if one and other:
        plot.change(one, subscriptions_version=other.fields["since"] - 1)
        plot.change(other, changed_at=one.fields["accepted_at"] - plot.dice.choice((3_500_000, 7_200_000)))


def filter_otherwise(plot: Plot) -> None:
    if one := plot.some("subscriptions", lambda fields: fields["part"] == "filter"):
        plot.change(one, filter=plot.dice.choice(FILTERS))


def set_otherwise(plot: Plot) -> None:
    changes: list[Fields] = [
        {"max_retries": 0}, {"max_retries": 2}, {"timeout_s": 1}, {"strategy": "BACKOFF_RETRY", "interval_s": 300},
        {"strategy": "EXPONENTIAL_DECAY_RETRY"}, {"strategy": "INDEPENDENT_RETRY"}, {"protocol": "pull"},
        {"start_from": 1}, {"start_from": 2**42},
    ]  # fmt: skip
    one = plot.some("subscriptions", lambda fields: fields["part"] == "settings")
    plot.change(one, **plot.dice.choice(changes))


def set_later(plot: Plot) -> None:
    if one := plot.some("subscriptions", lambda fields: fields["part"] in ("settings", "removed")):
        plot.change(one, changed_at=one.fields["changed_at"] + plot.dice.choice((-60_000, 2_000, 60_000, 7_200_000)))


def push_late_before_settings(plot: Plot) -> None:
    """An attempt after the end of a life, of a subscription whose settings are known from later on only."""
    if one := plot.some("deliveries", lambda fields: ended(fields) and "last_attempt_at" in fields):
        for each in plot.lines:
            if each.fields.get("part") == "settings" and each.fields["ordinal"] == one.fields["ordinal"]:
                each.fields["changed_at"] += 200_000_000
        plot.change(one, last_attempt_at=one.fields["expires_at"] + plot.dice.choice((20_000, 40_000)))


def add_late(plot: Plot) -> None:
    """A late entry that nobody asked for, or by a filter that never was."""
    if one := plot.some("deliveries", lambda fields: ended(fields) and "topic" in fields):
        name = f"{one.fields['topic']}.{one.fields['message_id']}.{one.fields['ordinal']}.l"
        number = plot.dice.choice((1, 2, 9))
        plot.add(one, record_id=name, state="pending", attempts=0, outcome=None, round_at=None, last_attempt_at=None,
                 added_at=one.fields["changed_at"], filter_version=number)  # fmt: skip


def name_other_filter(plot: Plot) -> None:
    plot.change(
        plot.some("deliveries", lambda fields: "added_at" in fields), filter_version=plot.dice.choice((1, 2, 9))
    )


def move_lane(plot: Plot) -> None:
    if one := plot.some("lanes"):
        plot.change(one, changed_at=one.fields["changed_at"] // 1000 * 1000 + plot.dice.choice((-5_000, 1_000, 60_000)))


def damage(plot: Plot) -> None:
    kind = plot.dice.choice(("messages", "deliveries", "subscriptions", "lanes"))
    plot.damaged.append((kind, plot.dice.choice(DAMAGED)))


FAULTS: tuple[Callable[[Plot], None], ...] = (
    lose, lose, end_otherwise, end_twice, contradict, shift_instant, shift_instant, shift_instant, miscount, displace,
    drop_by_function, expire_young, remove_owed, push_past_a_closed_lane, owe_otherwise, write_otherwise, replay,
    other_version, filter_otherwise, set_otherwise, set_later, push_late_before_settings, add_late, name_other_filter,
    move_lane, damage, match_with_outdated_filters,
)  # fmt: skip


def planted(seed: int, lines: list[Told]) -> Plot:
    """Return the lines of a history with one to four faults, or with none."""
    dice = Random(f"planted {seed}")
    plot = Plot(dice, lines)
    if is_whole(seed):
        return plot
    for _ in range(dice.randint(1, 4)):
        dice.choice(FAULTS)(plot)
    return plot


def is_whole(seed: int) -> bool:
    """Say whether nothing is planted into a history: of every three, into one."""
    return seed % 3 == 0
