"""What a replay sends of an archived message, in which requests, and how fast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from tagcast_client import Accepted, Refused

from glue_jobs import replay
from glue_jobs.io.storage import Archive
from glue_jobs.replay import FIELDS, Pace, chunks, offer_of, select_messages, send, to_archived_message
from tests.spark.story import NOON, message


def row(**fields: object) -> SimpleNamespace:
    none = dict.fromkeys((*FIELDS, "body_is_text", "attributes"))
    return SimpleNamespace(**none | {"message_id": "1"} | fields)


def test_text_that_was_archived_as_base64_is_sent_as_text_again() -> None:
    assert offer_of(row(body_base64="AQE=", body_is_text=True)) == {"body": "\x01\x01", "replay_of": "1"}


def test_bytes_stay_bytes_and_text_stays_text() -> None:
    assert offer_of(row(body_base64="/w==")) == {"body_base64": "/w==", "replay_of": "1"}
    assert offer_of(row(body="a")) == {"body": "a", "replay_of": "1"}


def test_the_client_sends_an_offer_as_it_is() -> None:
    more = {
        "tags": ["a"],
        "routing_key": "a.b",
        "properties": {"p": "1"},
        "ordering_key": "k",
        "content_type": "text/plain",
    }
    for offer in (
        {"body": "a", "replay_of": "1"},
        {"body": "", "replay_of": "1", **more},
        {"body_base64": "/w==", "replay_of": "1", **more},
    ):
        assert to_archived_message(offer).as_json() == offer


def test_a_request_has_no_more_than_the_api_takes_and_the_next_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    offers = [{"body": "x" * 80} for _ in range(7)]
    monkeypatch.setattr(replay, "CHUNK_BYTES_MAX", 300)

    assert [len(each) for each in chunks(iter(offers), 100)] == [3, 3, 1]
    assert [len(each) for each in chunks(iter(offers), 2)] == [2, 2, 2, 1]


def test_messages_are_chosen_from_the_first_instant_to_before_the_end(spark: SparkSession) -> None:
    instants = [NOON - 1, NOON, NOON + 5, NOON + 9, NOON + 10]
    rows = [("fruit", at, str(at), None) for at in instants]
    columns = "topic string, accepted_at long, message_id string, replay_of string"

    found = select_messages(spark.createDataFrame(rows, columns), "fruit", NOON, NOON + 10).collect()

    assert [row.accepted_at for row in found] == instants[1:4]


@dataclass
class Texts:
    """The texts that a job keeps in its archive."""

    kept: dict[tuple[str, ...], str] = field(default_factory=dict)

    def read_text(self, *parts: str) -> str | None:
        return self.kept.get(parts)

    def write_text(self, content: str, *parts: str) -> str:
        self.kept[parts] = content
        return "/".join(parts)


def test_a_run_that_ends_during_a_request_sends_it_again_and_tells_what_came_of_each_message() -> None:
    at = datetime.fromtimestamp(NOON / 1000, UTC)
    answers: list[tuple[Accepted | Refused, ...] | Exception] = [
        (Accepted("1", at, at, 2), Accepted("2", at, at, 0)),
        OSError(),
        (Accepted("3", at, at, 0), Refused({})),
    ]
    keys: list[str] = []

    def post(messages: Sequence[Mapping[str, Any]], key: str) -> tuple[Accepted | Refused, ...]:
        keys.append(key)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def groups() -> Iterator[list[dict[str, Any]]]:
        return chunks(iter([message(n) for n in range(4)]), 2)

    archive = cast("Archive", Texts())
    with pytest.raises(OSError):
        send(archive, post, "r", groups(), 4)

    assert send(archive, post, "r", groups(), 4) == {"chunks": 2, "sent": 3, "matched": 1, "refused": 1}
    assert keys == ["replay-r-0", "replay-r-1", "replay-r-1"]


def test_after_a_pause_no_more_is_sent_in_a_second_than_before() -> None:
    now, slept = 0.0, list[float]()
    pace = Pace(10.0, clock=lambda: now, sleep=slept.append)

    pace.wait(20)
    now = 60.0
    pace.wait(20)
    pace.wait(20)

    assert slept == [2.0]
