"""Messages ten by ten, each step waited for: what `tests.benchmarks.calls` counts at the SDK, counted on the box.

On AWS a batch is as full as the moment makes it; here publisher, relay and fan-out take turns: batches are full.
"""

from collections import Counter

from tests.benchmarks import calls
from tests.benchmarks.twinning.account import Account
from tests.benchmarks.twinning.meter import Usage
from tests.benchmarks.twinning.play import Load, Publishing, messages_up_to

STEP_MS = 100
ROUNDS = 3
"""One is the first, in which the process warms up; more count the same."""


def lockstep(account: Account) -> Usage:
    """Publish and deliver ten messages; one round before them, which is not counted, warms all up."""
    for source in account.deployment.stream_sources:
        source.stream.told.clear()
    usage = Usage()
    for number in range(2):
        publishing = Publishing(account, Load(publishers=1), messages_up_to(calls.BATCH), number * calls.BATCH)
        account.pollers.holding = True
        course = publishing.begin()
        while publishing.is_asking:
            account.timeline.play_until(account.timeline.now + STEP_MS)
        _tell_streams(account)
        account.pollers.holding = False
        account.pollers.told()
        publishing.finish()
        _tell_streams(account)
        if number:
            usage.calls += course.usage.calls
    return usage


def _tell_streams(account: Account) -> None:
    for source in account.deployment.stream_sources:
        source.told()
    while not all(source.is_idle for source in account.deployment.stream_sources):
        account.timeline.play_until(account.timeline.now + STEP_MS)


def by_calls(at_once: int) -> Counter[tuple[str, str]]:
    """Return what `tests.benchmarks.calls` counts of so many messages a request, a round, what warms up left out."""
    phases = calls.measure(at_once, ROUNDS * calls.BATCH).calls
    found: Counter[tuple[str, str]] = Counter()
    for phase in ("publish", "relay", "poll", "fan_out"):
        for operation, count in phases[phase].items():
            found[phase, operation] = count // ROUNDS
    return +found


def by_twin(account: Account) -> Counter[tuple[str, str]]:
    """Return what the twin counts of a round, without the archive.

    The batch route asks for the topic once more than the use case that `calls` measures: it checks sizes first.
    """
    found = Counter({key: count for key, count in lockstep(account).calls.items() if key[0] != "archive"})
    if account.cell.at_once > 1:
        found["publish", "GetItem"] -= 1
    return found
