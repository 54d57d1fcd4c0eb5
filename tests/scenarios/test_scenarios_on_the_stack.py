"""The scenarios of CMQ topic mode on the running stack, with HTTP receivers on loopback."""

from __future__ import annotations

import io
import threading
from contextlib import ExitStack

import pytest
from rich.console import Console
from tagcast_cli.receiver import Receiver, Reply
from tagcast_client import Accepted, Client, NewMessage
from tagcast_client.models import Lane

from local.demo.__main__ import DECAY, play_all
from tests.running_stack import PATIENCE_S, TIME_SCALE, RunningStack, wait_until

pytestmark = pytest.mark.e2e


def test_scenario_1_is_played_by_the_demo_with_every_promise_kept(stack: RunningStack) -> None:
    printed = io.StringIO()
    assert play_all(stack.url, Console(file=printed, width=200), TIME_SCALE, "-demo"), printed.getvalue()


def test_an_endpoint_that_hangs_keeps_nothing_from_those_beside_it(stack: RunningStack) -> None:
    released = threading.Event()
    a, b = Receiver(lambda push: Reply()), Receiver(lambda push: Reply())
    hanging = Receiver(lambda push: Reply(200 if released.wait(PATIENCE_S) else 500))
    with ExitStack() as listening, Client(stack.url) as api:

        def lane() -> Lane:
            found = api.get_subscription("hanging", "hangs").lane
            assert found is not None
            return found

        api.create_topic("hanging")
        for name, receiver, timeout_s in (("A", a, 15), ("B", b, 15), ("hangs", hanging, 1)):
            listening.callback(receiver.start().stop)
            api.create_subscription("hanging", name, receiver.url, retry=DECAY, timeout_seconds=timeout_s)

        results = api.publish_batch("hanging", [NewMessage(str(number)) for number in range(100)])
        ids = [result.message_id for result in results if isinstance(result, Accepted)]

        assert wait_until(lambda: len(a.accepted_ids()) == len(b.accepted_ids()) == 100)
        assert hanging.accepted == []
        assert wait_until(lambda: lane().backlog == 100)
        released.set()
        assert wait_until(lambda: lane().state == "active")
        assert {api.get_message("hanging", each).state for each in ids} == {"deleted"}
    assert sorted(hanging.accepted_ids()) == ids
