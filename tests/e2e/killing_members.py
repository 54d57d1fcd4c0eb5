"""Two members of one pull group share messages and are killed at random moments; what each saw is counted.

``python -m tests.e2e.killing_members --messages 10000`` prints what came of it, and how many messages a second were
pulled and acknowledged; ``--no-kills`` is for the rate alone. A member writes down each message before it acknowledges
it, so that a kill between the two is seen.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tagcast_client import Client, NewMessage

from tests.running_stack import RunningStack, start_stack

TOPIC, GROUP, MEMBERS = "shared", "workers", 2
TIME_SCALE, VISIBILITY_TIMEOUT_S = 10, 30
"""Invisible for three seconds, which is what thirty are under this scale."""
KILL_PAUSE_S = (1.0, 3.0)
MEMBER = f"""
import sys, time
from tagcast_client import Client
url, seen = sys.argv[1:]
with Client(url) as client, open(seen, "a", buffering=1) as lines:
    while True:
        messages = client.pull("{TOPIC}", "{GROUP}", wait_seconds=1, visibility_timeout_seconds={VISIBILITY_TIMEOUT_S})
        for message in messages:
            lines.write(f"{{message.message_id}} {{message.attempt}} {{time.time()}}\\n")
        if messages:
            client.ack("{TOPIC}", "{GROUP}", [each.receipt_handle for each in messages])
"""


@dataclass
class Shared:
    """What came of it: who saw what, when."""

    published: list[str]
    kills: int = 0
    took_s: float = 0.0
    seen: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    by_member: list[int] = field(default_factory=list)

    @property
    def lost(self) -> list[str]:
        return [each for each in self.published if each not in self.seen]

    @property
    def repeated(self) -> list[str]:
        return [each for each, times in self.seen.items() if len(times) > 1]

    def too_soon(self) -> list[str]:
        """What came again before its invisible time was over, give or take how late a member wrote it down."""
        least_s = VISIBILITY_TIMEOUT_S / TIME_SCALE - 1.0
        again = {each: sorted(times) for each, times in self.seen.items() if len(times) > 1}
        return [each for each, times in again.items() if min(b - a for a, b in pairwise(times)) < least_s]


class Members:
    """The members as processes; one that is killed is started again."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder
        self.processes = [self._start(number) for number in range(MEMBERS)]

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", MEMBER, self._url, str(self._folder / f"{number}")])

    def kill(self, number: int) -> None:
        self.processes[number].send_signal(signal.SIGKILL)
        self.processes[number].wait()
        self.processes[number] = self._start(number)

    def stop(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
            process.wait()


def run(stack: RunningStack, messages: int, seed: int, folder: Path, *, kills: bool = True) -> Shared:
    """Publish, let the members work, kill them until everything has ended, count."""
    dice = random.Random(seed)
    with Client(stack.url) as client:
        client.create_topic(TOPIC, ordering="none")
        client.create_subscription(TOPIC, GROUP, {"protocol": "pull"})
        results = client.publish_batch(TOPIC, [NewMessage(f"{number}") for number in range(messages)])
        shared = Shared([each.message_id for each in results if hasattr(each, "message_id")])
        members, began = Members(stack.url, folder), time.monotonic()
        try:
            while not _is_done(client, shared):
                time.sleep(dice.uniform(*KILL_PAUSE_S))
                if kills:
                    members.kill(dice.randrange(MEMBERS))
                    shared.kills += 1
            shared.took_s = time.monotonic() - began
        finally:
            members.stop()
    for number in range(MEMBERS):
        lines = (folder / f"{number}").read_text().splitlines()
        shared.by_member.append(len(lines))
        for message_id, _, at in (line.split() for line in lines if line.count(" ") == 2):
            shared.seen[message_id].append(float(at))
    return shared


def _is_done(client: Client, shared: Shared) -> bool:
    """Whether nothing is pending any more: the last published messages are looked at first, then all."""
    lane = client.get_subscription(TOPIC, GROUP).lane
    if lane is None or lane.backlog or lane.queued or lane.in_flight:
        return False
    return all(client.get_message(TOPIC, each).state == "deleted" for each in reversed(shared.published))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-kills", action="store_true")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        start_stack(Path(name, "data"), "--time-scale", f"{TIME_SCALE}") as stack,
    ):
        shared = run(stack, given.messages, given.seed, Path(name), kills=not given.no_kills)
    print(f"{len(shared.published):,} published, {len(shared.lost)} lost, {shared.kills} kills, "
          f"{len(shared.repeated):,} seen again, {len(shared.too_soon())} of them too soon; "
          f"{shared.by_member} by member, {len(shared.published) / shared.took_s:.0f} a second")  # fmt: skip
    return int(bool(shared.lost or shared.too_soon()))


if __name__ == "__main__":
    sys.exit(main())
