"""What records say together of entries, lanes and settings, one thing after the other."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.spark.oracle.records import Archive, Fields

FOREVER = 2**62
ENDS = ("delivered", "discarded", "expired", "cancelled", "filtered")
Lane = tuple[str | None, int]
"""Topic and ordinal."""


def most(values: Iterable[int | None]) -> int | None:
    return max((each for each in values if each is not None), default=None)


def least(values: Iterable[int | None]) -> int | None:
    return min((each for each in values if each is not None), default=None)


@dataclass
class Entry:
    """All that is told of one message for one subscription."""

    topic: str | None
    message_id: str
    ordinal: int
    message: Fields | None = None
    is_matched: bool = False
    told: list[Fields] = field(default_factory=list)

    @property
    def lane(self) -> Lane:
        return self.topic, self.ordinal

    @property
    def is_pending(self) -> bool:
        return self.is_matched or any("added_at" in each for each in self.told)

    @property
    def envelopes(self) -> list[Fields]:
        return [*([self.message] if self.is_matched and self.message else []), *self.told]

    @property
    def accepted_at(self) -> int:
        return int(min(each["accepted_at"] for each in self.envelopes))

    @property
    def expires_at(self) -> int | None:
        return most(each.get("expires_at") for each in self.envelopes)

    @property
    def ends(self) -> list[Fields]:
        return [each for each in self.told if each["state"] in ENDS and "removed_by" not in each]

    @property
    def waits(self) -> list[Fields]:
        return [each for each in self.told if each["state"] == "blocked" and "removed_by" not in each]

    @property
    def removed_at(self) -> int | None:
        return most(each["changed_at"] for each in self.told if "removed_by" in each)

    @property
    def end(self) -> str | None:
        """How it ended; of several ends, which are a violation anyhow, that which the documents name last."""
        states = [each["state"] for each in self.ends]
        return max(states, key=ENDS.index) if states else None

    @property
    def is_dropped(self) -> bool:
        """Say whether its filter function gave no answer, and it was dropped for that. Large rows name no outcome."""
        return any(
            each.get("outcome") == "filter_error"
            or (each["state"] == "discarded" and each["attempts"] == 0 and "outcome" not in each)
            for each in self.ends
        )

    @property
    def attempts(self) -> int | None:
        return most(each["attempts"] for each in self.ends)

    @property
    def made(self) -> int:
        """How many attempts were made, as far as anything tells."""
        return int(max([0, *(each["attempts"] for each in (*self.ends, *self.waits))]))

    @property
    def last_attempt_at(self) -> int | None:
        return most(each.get("last_attempt_at") for each in self.ends)

    @property
    def ended_at(self) -> int | None:
        return most(each["changed_at"] for each in self.ends)

    @property
    def round_at(self) -> int | None:
        return most(each.get("round_at") for each in self.ends)


def named(archive: Archive) -> Iterator[Fields]:
    """Yield the deliveries with their topics: records of waiting have its id only."""
    names = {each["topic_id"]: each["topic"] for each in (*archive.subscriptions, *archive.lanes) if "topic_id" in each}
    for each in archive.deliveries:
        yield {**each, "topic": each.get("topic", names.get(each.get("topic_id")))}


def entries_of(messages: Sequence[Fields], deliveries: Sequence[Fields]) -> dict[tuple[str | None, str, int], Entry]:
    """Return an entry for each match of a message, and for each of which a delivery tells."""
    found: dict[tuple[str | None, str, int], Entry] = {}
    for message in messages:
        for ordinal in message["matched"]:
            key = message["topic"], message["message_id"], ordinal
            found[key] = Entry(*key, message, is_matched=True)
    for each in deliveries:
        key = each["topic"], each["message_id"], each["ordinal"]
        found.setdefault(key, Entry(*key)).told.append(each)
    return found


def grouped(rows: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return dict(found)


def lane_of(fields: Fields) -> Lane:
    return fields["topic"], fields["ordinal"]


def closed_times(
    lanes: Sequence[Fields], open_states: Sequence[str] = ("active", "retrying")
) -> dict[Lane, list[tuple[int, int]]]:
    """Return when each lane was not open, in pieces: of the changes of one second only the sum is known."""
    found: dict[Lane, list[tuple[int, int]]] = {}
    for lane, changes in grouped(lanes, lane_of).items():
        steps: dict[int, int] = defaultdict(int)
        for each in changes:
            was_open, is_open = each["previous_state"] in open_states, each["state"] in open_states
            if was_open != is_open:
                steps[each["changed_at"]] += 1 if was_open else -1
        first = [each for each in changes if each["changed_at"] == min(every["changed_at"] for every in changes)]
        found_open = any(each["previous_state"] in open_states for each in first)
        if steps.get(first[0]["changed_at"], 0) < 0 or not found_open:
            steps[0] += 1  # The archive has deleted the record of its closing.
        closed, pieces = 0, []
        instants = sorted(steps)
        for at, until in zip(instants, [*instants[1:], FOREVER], strict=False):
            closed += steps[at]
            if closed > 0:
                pieces.append((at, until))
        found[lane] = pieces
    return found


@dataclass(frozen=True)
class Policy:
    """The settings of a subscription that bound its attempts, and when they were in force."""

    fields: Fields
    valid_from: int
    valid_to: int

    @property
    def is_pulled(self) -> bool:
        return bool(self.fields["protocol"] == "pull")

    def least_wait_ms(self, failures: int) -> int | None:
        """Return the shortest wait after a failure, None where no attempt may follow (docs/semantics.md, Retries)."""
        if failures > self.fields["max_retries"]:
            return None
        if self.fields["max_retries"] == 86_400:
            growing = self.fields.get("interval_s", 1) * 2 ** min(failures - 1, 20)
            return int(min(growing, self.fields["interval_s_max"]) * 1000)
        if self.fields["strategy"] == "BACKOFF_RETRY":
            return int(self.fields.get("interval_s", 10) * 1000)
        return int(min(2 ** (failures - 1), self.fields["interval_s_max"]) * 1000)


def policies_of(subscriptions: Sequence[Fields]) -> dict[Lane, list[Policy]]:
    found: dict[Lane, list[Policy]] = {}
    settings = [each for each in subscriptions if each["part"] == "settings"]
    for lane, versions in grouped(settings, lane_of).items():
        versions.sort(key=lambda each: each["version"])
        ends = [*(each["changed_at"] for each in versions[1:]), FOREVER]
        found[lane] = [Policy(one, one["changed_at"], end) for one, end in zip(versions, ends, strict=True)]
    return found


def in_force(policies: Mapping[Lane, Sequence[Policy]], lane: Lane, begins: int, ends: int, blur: int) -> list[Policy]:
    """Return the settings that were in force at some time between two instants."""
    known = policies.get(lane, ())
    return [each for each in known if each.valid_from <= ends + blur and each.valid_to >= begins - blur]
