"""What a replay sends of an archived message, in which requests, and how fast."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tagcast_client import Accepted, Refused

from glue_jobs import replay
from glue_jobs.io.objects import FolderObjects, LostRaceError
from glue_jobs.replay import FIELDS, Offers, Pace, chunks, offer_of, select_messages, send, to_archived_message
from tests.spark.story import NOON


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


@pytest.fixture
def archive(tmp_path: Path) -> FolderObjects:
    return FolderObjects(tmp_path)


class Sending:
    """A receiver of chunks that refuses requests by their number."""

    def __init__(self, *failing: int) -> None:
        self.requests: list[tuple[str, list[str]]] = []
        self.failing = failing

    def post(self, messages: Sequence[Mapping[str, Any]], key: str) -> tuple[Accepted | Refused, ...]:
        self.requests.append((key, [each["replay_of"] for each in messages]))
        if len(self.requests) in self.failing:
            raise OSError
        at = datetime.fromtimestamp(NOON / 1000, UTC)
        return tuple(
            Refused({}) if each["body"] == "bad" else Accepted("1", at, at, int(each["replay_of"] != "2"))
            for each in messages
        )


def offered(*numbers: int, bad: int | None = None, others: Sequence[int] = ()) -> Offers:
    """Messages that pass the filters, and *others* that do not any more."""
    every = [{"body": "bad" if n == bad else "x", "replay_of": f"{n}"} for n in sorted({*numbers, *others})]
    return lambda ids: iter(
        [each for each in every if each["replay_of"] in (map(str, numbers) if ids is None else ids)]
    )


def test_a_run_that_ends_during_a_request_sends_it_again_and_tells_what_came_of_each_message(
    archive: FolderObjects,
) -> None:
    sending = Sending(2)
    with pytest.raises(OSError):
        send(archive, sending.post, "r", offered(1, 2, 3, 4, bad=4), 2, 4)

    done = send(archive, sending.post, "r", offered(1, 2, 3, 4, bad=4), 2, 4)

    assert done == {"chunks": 2, "sent": 3, "matched": 2, "refused": 1, "sent_before": 2}
    assert [ids for _, ids in sending.requests] == [["1", "2"], ["3", "4"], ["3", "4"]]
    assert sending.requests[1] == sending.requests[2]


def test_what_came_late_is_sent_once_and_nothing_twice(archive: FolderObjects) -> None:
    sending = Sending(2)
    with pytest.raises(OSError):
        send(archive, sending.post, "r", offered(3, 4, 5, 6, 9), 2, 5)

    send(archive, sending.post, "r", offered(1, 3, 4, 5, 6, 7, 9), 2, 7)
    again = send(archive, sending.post, "r", offered(1, 3, 4, 5, 6, 7, 9, 10), 2, 8)
    none = send(archive, sending.post, "r", offered(1, 3, 4, 5, 6, 7, 9, 10), 2, 8)

    assert [ids for _, ids in sending.requests] == [
        ["3", "4"], ["5", "6"], ["5", "6"], ["1", "7"], ["9"], ["10"],
    ]  # fmt: skip
    assert (again["sent"], again["sent_before"]) == (8, 7)
    assert (none["sent"], none["sent_before"]) == (8, 8)
    assert send(archive, sending.post, "another", offered(1), 2, 1)["sent_before"] == 0
    assert len({key for key, _ in sending.requests}) == len(sending.requests) - 1


def test_an_interrupted_chunk_is_sent_as_it_was_whatever_matches_now(archive: FolderObjects) -> None:
    sending = Sending(1)
    with pytest.raises(OSError):
        send(archive, sending.post, "r", offered(1, 2), 2, 2)

    send(archive, sending.post, "r", offered(2, 3, others=[1]), 2, 2)

    assert [ids for _, ids in sending.requests] == [["1", "2"], ["1", "2"], ["3"]]
    assert sending.requests[0] == sending.requests[1]


def test_of_two_processes_with_one_run_the_second_to_take_a_chunk_ends(archive: FolderObjects) -> None:
    first, second = Sending(), Sending()

    def during(messages: Sequence[Mapping[str, Any]], key: str) -> tuple[Accepted | Refused, ...]:
        if len(first.requests) == 1:  # Its second chunk is under way; a late message came before the second process.
            send(archive, second.post, "r", offered(0, 1, 2, 3, 4, 5, 6), 2, 7)
        return first.post(messages, key)

    with pytest.raises(LostRaceError):
        send(archive, during, "r", offered(1, 2, 3, 4, 5, 6), 2, 6)
    sent = dict((*first.requests, *second.requests))
    assert sorted(each for ids in sent.values() for each in ids) == [str(n) for n in range(7)]


def test_an_interrupted_chunk_without_what_was_erased_since_has_another_key(archive: FolderObjects) -> None:
    sending = Sending(1)
    with pytest.raises(OSError):
        send(archive, sending.post, "r", offered(1, 2), 2, 2)

    send(archive, sending.post, "r", offered(2, 3), 2, 2)

    assert [ids for _, ids in sending.requests] == [["1", "2"], ["2"], ["3"]]
    assert len({key for key, _ in sending.requests}) == 3


def test_after_a_pause_no_more_is_sent_in_a_second_than_before() -> None:
    now, slept = 0.0, list[float]()
    pace = Pace(10.0, clock=lambda: now, sleep=slept.append)

    pace.wait(20)
    now = 60.0
    pace.wait(20)
    pace.wait(20)

    assert slept == [2.0]
