"""Tencent's client in Python against the running stack, with a receiver that listens as receivers of CMQ did."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tagcast_aws.cmq.keys import CmqKey
from tagcast_cli.app import app
from tagcast_cli.cmq_key_store import KeyStore, KeyStoreError
from typer.testing import CliRunner

from tests.cmq import sdk
from tests.cmq.over_http import CmqProgram
from tests.http_server import Handler, serving
from tests.running_stack import RunningStack, wait_until

pytestmark = pytest.mark.e2e


def cmq_key(stack: RunningStack, *words: str) -> Any:
    ran = CliRunner().invoke(app, ["--json", "cmq-key", *words, "--data", str(stack.folder)])
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def key(stack: RunningStack) -> dict[str, str]:
    made: dict[str, str] = cmq_key(stack, "create", "--note", "tests", "--unsigned-at")
    return made


@dataclass
class Inbox:
    """A receiver as people had for CMQ: it keeps headers and bodies of pushes as they come."""

    url: str
    pushes: list[tuple[dict[str, str], bytes]]


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    pushes: list[tuple[dict[str, str], bytes]] = []

    class Serving(Handler):
        def serve(self) -> None:
            pushes.append(({name.lower(): value for name, value in self.headers.items()}, self.body()))
            self.answer(200)

    with serving(Serving) as url:
        yield Inbox(f"{url}/push?a=1&b=2", pushes)


def account_of(stack: RunningStack, key: dict[str, str], folder: Path, sign: str, method: str) -> Any:
    account = sdk.account(stack.url, key["secret_id"], key["secret_key"], folder)
    account.set_sign(sign)
    account.get_client().set_method(method)
    return account


@pytest.mark.parametrize(("sign", "method"), [("sha1", "POST"), ("sha256", "GET")])
def test_every_action_of_tencents_client_does_what_it_says(
    stack: RunningStack, key: dict[str, str], inbox: Inbox, tmp_path: Path, sign: str, method: str
) -> None:
    account = account_of(stack, key, tmp_path, sign, method)
    name = f"cmq-{sign}-{method}"
    topic, subscription = account.get_topic(name), account.get_subscription(name, "s")

    topic.create(sdk.topic_meta(maxMsgSize=2048))
    topic.set_attributes(sdk.topic_meta(maxMsgSize=4096))
    found = topic.get_attributes()
    assert (found.maxMsgSize, found.filterType, found.msgRetentionSeconds, found.msgCount) == (4096, 1, 86_400, 0)
    total, listed, _ = account.list_topic(searchWord=name, limit=10, offset=0)
    assert (total, listed[0]["topicName"]) == (1, name)

    subscription.create(sdk.subscription_meta(inbox.url, FilterTag=["apple"]))
    assert subscription.get_attributes().FilterTag == ["apple"]
    subscription.set_attributes(sdk.subscription_meta("", FilterTag=["imac"], NotifyStrategy="BACKOFF_RETRY"))
    known = subscription.get_attributes()
    assert (known.FilterTag, known.NotifyStrategy, known.bindingKey) == (["imac"], "BACKOFF_RETRY", [])
    assert topic.list_subscription()[0] == 1

    one = topic.publish_message(sdk.message("@ & =+%/ 世界", "imac"))
    several = topic.batch_publish_message([sdk.message(str(n)) for n in range(11)], msgtag=["imac"])
    subscription.clearFilterTags()
    untagged = topic.publish_message(sdk.message("untagged"))
    ids = [each.msgId for each in (one, *several, untagged)]
    assert wait_until(lambda: len(inbox.pushes) >= len(ids))
    pushed = [json.loads(body) for _, body in inbox.pushes]
    assert [each["msgId"] for each in pushed] == ids
    assert [each["msgBody"] for each in pushed] == ["@ & =+%/ 世界", *map(str, range(11)), "untagged"]

    subscription.delete()
    topic.delete()
    assert account.list_topic(searchWord=name)[0] == 0


def test_receivers_of_cmq_get_what_they_got(
    stack: RunningStack, key: dict[str, str], inbox: Inbox, tmp_path: Path
) -> None:
    account = account_of(stack, key, tmp_path, "sha256", "POST")
    topic = account.get_topic("cmq-bound")
    topic.create(sdk.topic_meta(filterType=2))
    queue = stack.owner("sqs").create_queue(QueueName="cmq-queue")["QueueUrl"]
    for name, meta in {
        "json": sdk.subscription_meta(inbox.url, bindingKey=["1.*.0"]),
        "bare": sdk.subscription_meta(inbox.url, bindingKey=["1.#"], NotifyContentFormat="SIMPLIFIED"),
        "queue": sdk.subscription_meta("cmq-queue", "queue", bindingKey=["#"]),
    }.items():
        account.get_subscription("cmq-bound", name).create(meta)

    sent = topic.publish_message(sdk.message("hello", "a", "b"), routingKey="1.2.0").msgId

    assert wait_until(lambda: len(inbox.pushes) >= 2)
    (headers, body), (_, bare) = sorted(inbox.pushes, key=lambda push: push[1])[::-1]
    assert bare == b"hello"
    told = json.loads(body)
    assert abs(told.pop("publishTime") - time.time()) < 300
    named = {"topicName": "cmq-bound", "subscriptionName": "json"}
    assert told == {"TopicOwner": 123456789012, **named, "msgId": sent, "msgBody": "hello"}
    assert (headers["content-type"], headers["x-cmq-message-id"]) == ("text/plain", sent)
    assert headers["x-cmq-message-tag"] == "a, b"
    queued: list[str] = []

    def arrived() -> bool:
        found = stack.owner("sqs").receive_message(QueueUrl=queue, WaitTimeSeconds=1).get("Messages", ())
        queued.extend(each["Body"] for each in found)
        return bool(queued)

    assert wait_until(arrived)
    assert queued == ["hello"]


def test_the_client_in_go_is_answered_at_the_root(stack: RunningStack, key: dict[str, str]) -> None:
    program = CmqProgram(stack.url, CmqKey(key["secret_id"], key["secret_key"], 0), path="/")

    answer = program.ask("ListTopic", clientRequestId="1634059514")

    assert (answer["code"], answer["clientRequestId"]) == (0, 1634059514)


def refusal_of(account: Any) -> str:
    """Code and module code of what a request is refused with; empty if it is served."""
    from cmq.cmq_exception import CMQServerException

    try:
        account.list_topic()
    except CMQServerException as refused:
        return f"{refused.code}{refused.message[:7]}"
    return ""


def test_a_revoked_key_is_refused_and_no_other(stack: RunningStack, key: dict[str, str], tmp_path: Path) -> None:
    other = cmq_key(stack, "create")
    assert cmq_key(stack, "revoke", other["secret_id"])["revoked_at"] is not None
    account = account_of(stack, other, tmp_path, "sha1", "POST")

    # A process that has just looked for an unknown key does so again after some seconds.
    assert wait_until(lambda: refusal_of(account) == "4100(10080)")
    assert refusal_of(account_of(stack, key, tmp_path, "sha1", "POST")) == ""
    listed = {each["secret_id"]: each for each in cmq_key(stack, "list")["keys"]}
    assert listed[other["secret_id"]]["revoked_at"]
    assert not any("secret_key" in each for each in listed.values())
    assert key["secret_key"] not in stack.output


def test_of_two_changes_of_the_keys_at_once_none_is_lost(stack: RunningStack, key: dict[str, str]) -> None:
    store = KeyStore.of_folder(stack.folder)

    def overtaken(ring: Any) -> Any:
        cmq_key(stack, "create", "--note", "faster")
        return ring.with_revoked(key["secret_id"], 1)

    with pytest.raises(KeyStoreError, match="try again"):
        store.change(overtaken)

    ring = store.read()
    assert "faster" in {each.note for each in ring.keys}
    known = ring.find(key["secret_id"])
    assert known is not None
    assert known.revoked_at is None
