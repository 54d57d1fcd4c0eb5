"""What a cell takes of each quota, and which would be used up first: how fast it could be, where a play is too short.

The utilisation law: who takes so many seconds of what a quota gives cannot do that in less time. Two plays of one cell,
of which the second is published to twice as fast, say what each further message takes. Whatever batches takes less the
faster it goes, so that this finds no more than there is, as long as nothing queues in between: that, a play shows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tagcast.model import Ordering

from tests.aws import limits
from tests.benchmarks.twinning.account import TOPIC, Account
from tests.benchmarks.twinning.play import Course

TOPIC_READS = f"reads of TOPIC#{TOPIC}"
BUSY = 0.85
"""A quota limits a play that takes this share of it; what waits for it waits in vain, too."""

Taken = Mapping[str, float]
"""By quota, for how many seconds all of it was taken by a message."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The messages a second at which a quota is used up."""

    per_second: float
    quota: str

    def __str__(self) -> str:
        return f"{self.quota} at {self.per_second:,.0f}"


def taken(account: Account, course: Course) -> Taken:
    """Return what *course*, the last play of *account*, took of each quota that other messages want, too."""
    memory_mb = {function.kind: function.memory_mb for function in account.deployment.functions.by_id.values()}
    running_s = sum(mb_ms / memory_mb[kind] for kind, mb_ms in course.usage.billed_mb_ms.items()) / 1000
    found = account.deployment.box.quotas.taken_s()
    found["functions at once"] = running_s / account.cell.place.executions
    if account.cell.ordering is not Ordering.NONE:
        found["one batch of a group at a time"] = course.group_busy * course.lasted_s
    for table in account.deployment.tables.values():
        found |= table.throughput.taken_s()
    if known_s := float(account.deployment.stack.reference("TopicKnownSeconds")):
        found[TOPIC_READS] -= _looks_too_many(course, known_s) / limits.KEY_READ_UNITS
    return {quota: seconds / len(course.sent) for quota, seconds in found.items()}


def _looks_too_many(course: Course, known_s: float) -> float:
    """Return the units that publishers took of the topic's row because the play was short.

    Each process looks once in *known_s*, whatever the rate; of a look that counts for longer than the play, only that
    part is the play's.
    """
    window_s = len(course.sent) / course.sustained()
    return course.usage.calls["publish", "GetItem"] * max(0.0, 1 - window_s / known_s)


def limit_of(course: Course, took: Taken) -> str | None:
    """Return the quota that limited *course*, if one did."""
    quota, seconds = max(took.items(), key=lambda each: each[1])
    return quota if seconds * course.sustained() > BUSY else None


def first_bound(slower: tuple[Course, Taken], faster: tuple[Course, Taken]) -> Bound | None:
    """Return which quota is used up first, and when; None if *faster* was not published to faster.

    Of several that *faster* has used up already, it is the one that it took most of.
    """
    slow, fast = slower[0].sustained(), faster[0].sustained()
    bounds: list[tuple[float, float, str]] = []
    if fast <= slow:
        return None
    for quota in slower[1].keys() & faster[1].keys():
        share = fast * faster[1][quota]
        each_s = (share - slow * slower[1][quota]) / (fast - slow)
        if each_s > 0:
            bounds.append((fast + max(0.0, 1 - share) / each_s, -share, quota))
    return Bound(*min(bounds)[::2]) if bounds else None
