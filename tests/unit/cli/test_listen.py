"""The receiver counts per subscription, fails as planned and prints one line per push."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import urllib3
from tagcast.verification import VerificationResult, confirmation, handshake
from tagcast_cli.app import app
from tagcast_cli.listen import body_text, push_line, tags_of
from tagcast_cli.receiver import FaultPlan, Push, Receiver, Reply, token_of
from typer.testing import CliRunner

from local.engine.engine import free_port
from tests.running_stack import wait_until


@contextmanager
def listening(receiver: Receiver) -> Iterator[Receiver]:
    receiver.start()
    yield receiver
    receiver.stop()


def push_to(url: str, subscription: str, message_id: str, attempt: int = 1, topic: str = "test1") -> int:
    headers = {
        "webhook-id": message_id,
        "x-tagcast-topic": topic,
        "x-tagcast-subscription": subscription,
        "x-tagcast-attempt": str(attempt),
        "x-tagcast-tags": '["apple"]',
    }
    envelope = json.dumps({"message_id": message_id, "body": "hello"}).encode()
    return urllib3.request("POST", url, body=envelope, headers=headers, retries=False).status


def test_each_subscription_is_counted_by_itself() -> None:
    plan = FaultPlan(fail_from=2, fail_until=2)
    with listening(Receiver(lambda push: plan.reply_to(push.number))) as receiver:
        a = [push_to(receiver.url, "A", message_id) for message_id in ("1", "2", "2")]
        b = push_to(receiver.url, "B", "1")
        of_other_topic = [push_to(receiver.url, "B", each, topic="test2") for each in ("1", "2")]
    assert (a, b, of_other_topic) == ([200, 500, 200], 200, [200, 500])
    assert receiver.totals() == {"A": 3, "B": 3}


def test_a_retry_keeps_the_number_of_its_message() -> None:
    seen: list[tuple[str, int, int]] = []

    def note(push: Push, _: Reply) -> None:
        seen.append((push.message_id, push.number, push.message_number))

    with listening(Receiver(lambda push: Reply(), note)) as receiver:
        for message_id in ("m1", "m2", "m2", "m3"):
            push_to(receiver.url, "A", message_id)
    assert seen == [("m1", 1, 1), ("m2", 2, 2), ("m2", 3, 2), ("m3", 4, 3)]
    assert receiver.accepted_ids() == ["m1", "m2", "m3"]


def test_listening_prints_a_line_per_push_and_the_totals() -> None:
    port = free_port()
    statuses: list[int] = []

    def push_twice() -> None:
        url = f"http://127.0.0.1:{port}/"
        while True:
            try:
                statuses.append(push_to(url, "A", "01747000000000000001"))
                break
            except urllib3.exceptions.HTTPError:
                time.sleep(0.05)
        statuses.append(push_to(url, "A", "01747000000000000002"))

    pusher = threading.Thread(target=push_twice)
    pusher.start()
    words = f"listen --port {port} --name shop --fail-from 2 --status 503 --stop-after 2"
    result = CliRunner().invoke(app, words.split())
    pusher.join()
    assert result.exit_code == 0, result.output
    assert statuses == [200, 503]
    assert "shop test1/A #1 01747000000000000001 attempt 1 200 [apple] hello" in result.output
    assert "#2 01747000000000000002 attempt 1 503" in result.output
    assert "A: 2 pushes, 1 accepted, 1 refused" in result.output


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_listening_ends_when_nobody_reads_its_lines(words: tuple[str, ...]) -> None:
    port = free_port()
    command = [sys.executable, "-m", "tagcast_cli.app", *words, "listen", "--port", str(port)]
    reader, writer = os.pipe()
    with subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE) as process:
        os.close(writer)
        url = f"http://127.0.0.1:{port}/"
        try:
            assert wait_until(lambda: answers(url))
            os.close(reader)
            with pytest.raises(urllib3.exceptions.HTTPError):  # So it comes again.
                push_to(url, "A", "1")
            assert process.wait(10) == 1
        finally:
            process.kill()


def answers(url: str) -> bool:
    try:
        return urllib3.request("GET", url, retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def test_a_body_of_deep_json_is_received_like_any_text() -> None:
    deep = "[" * 100_000
    assert body_text(deep.encode()) == "[" * 59 + "…"
    assert tags_of(deep) == []
    assert token_of(deep.encode()) is None


def test_a_body_that_looks_like_an_envelope_is_shown_as_it_is() -> None:
    looks = b'{"message_id": "abc", "price": 5}'
    push = Push("t", "A", "01747000000000000001", "1", 1, 1, "[]", looks)
    assert push_line(push, Reply(), None).plain.endswith(f"attempt 1 200 {looks.decode()}")


def test_the_messages_of_a_batch_stand_below_its_line() -> None:
    lines: list[str] = []

    def note(push: Push, reply: Reply) -> None:
        lines.append(push_line(push, reply, None).plain)

    names = {"x-tagcast-topic": "t", "x-tagcast-subscription": "A", "x-tagcast-attempt": "1"}
    headers = {"webhook-id": "batch_1", "x-tagcast-batch": "2", **names}
    envelope: dict[str, object] = {
        "topic": "t",
        "subscription": "A",
        "attempt": 1,
        "accepted_at": "2027-01-15T08:00:00.000Z",
        "expires_at": "2027-01-16T08:00:00.000Z",
        "properties": {},
        **dict.fromkeys(("routing_key", "ordering_key", "content_type")),
    }
    sent = [
        {**envelope, "message_id": number, "body": "hello\n", "tags": tags}
        for number, tags in (("1", ["a", "b"]), ("2", []))
    ]
    sent[1]["body"] = '{"message_id": "abc"}'
    with listening(Receiver(lambda push: Reply(), note)) as receiver:
        for text in (json.dumps(sent), "{}"):
            urllib3.request("POST", receiver.url, body=text, headers=headers, retries=False)
    batch, unreadable = lines
    assert batch.endswith('t/A #1 batch_1 attempt 1 200 2 messages\n    1 [a, b] hello\n    2 {"message_id": "abc"}')
    assert unreadable.endswith("t/A #2 batch_1 attempt 1 200 {}")


def test_the_receiver_agrees_by_the_handshake_and_by_repeating_the_token_and_counts_no_push() -> None:
    asked: list[str] = []
    with listening(Receiver(lambda push: Reply(500), on_check=asked.append)) as receiver:
        offered = urllib3.request("OPTIONS", receiver.url, headers={"webhook-request-origin": "me.example"})
        question = json.dumps({"verification_token": "abc"})
        repeated = urllib3.request("POST", receiver.url, body=question, headers={"user-agent": "tagcast/1"})
        pushed = {"x-tagcast-topic": "t", "x-tagcast-subscription": "A"}
        like_it = urllib3.request("POST", receiver.url, body=question, headers=pushed, retries=False)
    assert (
        handshake(offered.status, offered.headers["webhook-allowed-origin"], "*", "me.example") == VerificationResult()
    )
    assert confirmation(repeated.status, repeated.data, "abc") == VerificationResult()
    assert (like_it.status, asked, receiver.totals()) == (500, ["me.example", "tagcast/1"], {"A": 1})


def test_a_port_in_use_is_said_so() -> None:
    with listening(Receiver(lambda push: Reply())) as receiver:
        port = receiver.url.rstrip("/").rpartition(":")[2]
        result = CliRunner().invoke(app, ["listen", "--port", port])
    assert result.exit_code == 2
    assert "cannot listen on" in result.output
