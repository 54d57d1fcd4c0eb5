"""What a replay sends of an archived message."""

from types import SimpleNamespace

from glue_jobs.replay import FIELDS, archived, offer_of


def row(**fields: object) -> SimpleNamespace:
    return SimpleNamespace(**dict.fromkeys(FIELDS) | {"message_id": "1", "body_is_text": None} | fields)


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
        assert archived(offer).as_json() == offer
