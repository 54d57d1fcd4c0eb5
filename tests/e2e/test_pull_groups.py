"""Pull groups on the running stack: the deployed function, its role, and queues that hide what was pulled."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tagcast_client import Client, NotFoundError, PullEndpoint

from tests.e2e.killing_members import run
from tests.running_stack import RunningStack, heed_interrupts, wait_until

pytestmark = pytest.mark.e2e
PULL: PullEndpoint = {"protocol": "pull"}


@pytest.fixture
def client(stack: RunningStack) -> Iterator[Client]:
    with Client(stack.url) as made:
        yield made
    assert stack.denied() == []


def states(client: Client, topic: str, ids: Sequence[str], group: str) -> list[str]:
    return [client.get_message(topic, each).subscribers[group].state for each in ids]


def test_what_a_removed_group_was_owed_is_cancelled_and_its_queue_is_gone(client: Client, stack: RunningStack) -> None:
    client.create_topic("left")
    client.create_subscription("left", "workers", PULL)
    sent = client.publish("left", "never pulled").message_id
    sqs = stack.owner("sqs")
    assert wait_until(lambda: client.get_message("left", sent).subscribers["workers"].state == "pending")
    before = {url for url in sqs.list_queues().get("QueueUrls", ()) if "-group-" in url}
    assert before

    client.delete_subscription("left", "workers")
    with pytest.raises(NotFoundError):
        client.pull("left", "workers")
    assert wait_until(lambda: states(client, "left", [sent], "workers") == ["cancelled"])
    assert wait_until(lambda: len(before - set(sqs.list_queues().get("QueueUrls", ()))) == 1)


@pytest.mark.timeout(240)
def test_members_that_are_killed_lose_nothing_and_repeat_only_after_the_invisible_time(
    stack: RunningStack, tmp_path: Path
) -> None:
    shared = run(stack, 150, 1, tmp_path)

    assert len(shared.published) == 150
    assert shared.kills >= 1
    assert (shared.lost, shared.too_soon()) == ([], [])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_consumer_in_the_terminal_that_is_told_to_end_leaves_its_group(
    client: Client, stack: RunningStack, how: signal.Signals
) -> None:
    topic = f"told-to-end-{how.name}"
    client.create_topic(topic)
    client.create_subscription(topic, "workers", PULL)
    command = [sys.executable, "-m", "tagcast_cli.app", "--url", stack.url, "consume", topic, "workers"]
    sent = client.publish(topic, "pulled").message_id
    process = subprocess.Popen(command, preexec_fn=heed_interrupts)
    try:
        assert wait_until(lambda: states(client, topic, [sent], "workers") == ["delivered"])
        process.send_signal(how)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    assert client.list_members(topic, "workers") == ()
