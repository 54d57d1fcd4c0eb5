"""Changes that could not be archived, on the box: they are kept with their contents, named, and archived when asked."""

from __future__ import annotations

import json
from typing import Any

from tests.aws.firehose import RECORDS
from tests.aws.limits import QUOTAS
from tests.aws.scenes import Scene

DAY_S = 86_400


class Archived(Scene):
    """A scene of one subscriber, and what became of the records of its topic."""

    def __init__(self) -> None:
        super().__init__(1)
        self.topic("t")
        self.subscribe("t", "a")
        self.play(60)

    def take(self, records_per_s: int) -> None:
        """Let each stream of the archive take so many records a second from now on."""
        self.deployment.box.quotas.grant(RECORDS, records_per_s)

    @property
    def lines(self) -> list[str]:
        return [line for _, line in self.deployment.firehose.lines()]

    @property
    def kept(self) -> dict[str, Any]:
        return self.deployment.s3.buckets[self.deployment.stack.name_of("KeptChanges")]

    @property
    def named(self) -> list[str]:
        messages = self.deployment.queues["ArchiveFailures"].messages()
        return [json.loads(message.body)["detail"]["object"]["key"] for message in messages]

    def ask(self) -> Any:
        """Ask for the archiving of what is kept; return the answer."""
        answers: list[Any] = []
        function = self.deployment.functions.by_id["ArchiveFunction"]
        self.deployment.functions.start(function, {"archive": "kept"}, answers.append)
        self.play(60)
        [ended] = answers
        assert ended.error is None
        return ended.answer


def test_what_firehose_refused_for_longer_than_the_stream_repeats_is_kept_and_archived_when_somebody_asks() -> None:
    scene = Archived()
    before = len(scene.lines)
    scene.take(0)
    scene.publish("t", "1", "2")
    scene.play(DAY_S)

    assert len(scene.lines) == before
    assert scene.kept
    assert sorted(scene.named) == sorted(scene.kept), "the alarm looks at the queue"
    assert all(key.startswith("aws/lambda/") for key in scene.kept)

    assert scene.ask()["left"] > 0, "Firehose still refuses"
    assert scene.kept
    scene.take(round(QUOTAS[RECORDS].least))
    scene.play(180)
    answer = scene.ask()

    assert answer["archived"] > 0
    assert not scene.kept
    assert not scene.named
    told = [json.loads(line) for line in scene.lines]
    ids = [each["message_id"] for each in told if "body_bytes" in each]
    ended = [each["message_id"] for each in told if each.get("state") == "delivered"]
    assert len(ids) == len(set(ids)) == 2
    assert sorted(ended) == sorted(ids)
    assert scene.ask() == {"archived": 0, "left": 0}


def test_a_change_that_cannot_be_read_is_kept_until_its_object_is_gone_and_its_shard_goes_on() -> None:
    scene = Archived()
    table = scene.deployment.stack.name_of("MessagesTable")
    scene.deployment.box.client("dynamodb", "administrator").put_item(
        TableName=table, Item={"pk": {"S": "MSG#t#1"}, "sk": {"S": "MSG"}, "topic": {"S": "t"}}
    )
    scene.play(5)
    scene.publish("t", "1")
    scene.play(300)

    assert [key.partition("/")[0] for key in scene.kept] == ["unread"]
    assert scene.named == list(scene.kept)
    assert any('"state":"delivered"' in line for line in scene.lines)
    assert scene.ask() == {"archived": 0, "left": 1}
    assert scene.kept, "it waits for code that reads it"

    scene.kept.clear()
    scene.play(180)
    assert scene.ask() == {"archived": 0, "left": 0}, "an object that is gone is named no longer"
    assert not scene.named
