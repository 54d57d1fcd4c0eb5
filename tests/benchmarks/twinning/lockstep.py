"""Messages ten by ten, each step waited for, and the budgets of what they ask of AWS.

On AWS a batch is as full as the moment makes it; here publisher, relay and fan-out take turns: batches are full.
"""

from tests.benchmarks.twinning.account import Account
from tests.benchmarks.twinning.meter import Usage
from tests.benchmarks.twinning.play import Load, Publishing, messages_up_to

STEP_MS = 100
BATCH = 10
BUDGETS = {"table writes": 2.0, "read units": 3.0, "queue requests": 1.3}
"""Of a message of 1 KiB to 3 subscribers."""


def lockstep(account: Account) -> Usage:
    """Publish and deliver ten messages; one round before them, which is not counted, warms all up."""
    for source in account.deployment.stream_sources:
        source.stream.told.clear()
    usage = Usage()
    for number in range(2):
        publishing = Publishing(account, Load(publishers=1), messages_up_to(BATCH), number * BATCH)
        account.pollers.holding = True
        usage = publishing.begin().usage
        while publishing.is_asking:
            account.timeline.play_until(account.timeline.now + STEP_MS)
        _tell_streams(account)
        account.pollers.holding = False
        account.pollers.told()
        publishing.finish()
        _tell_streams(account)
    return usage


def _tell_streams(account: Account) -> None:
    for source in account.deployment.stream_sources:
        source.told()
    while not all(source.is_idle for source in account.deployment.stream_sources):
        account.timeline.play_until(account.timeline.now + STEP_MS)
