"""The keys as one text, and how a process reads them."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from tagcast.errors import UnavailableError
from tagcast_aws.cmq.keys import (
    KEY_TOPIC_LENGTH_MAX,
    KEY_TOPICS_MAX,
    KEYS_MAX,
    NOTE_BYTES_MAX,
    REVOKED_KEPT,
    CmqKey,
    KeyRing,
    note_size,
)
from tagcast_aws.store.cached_secret import CachedSecret
from tagcast_cli.cmq_keys import create_key

from tests.aws.limits import SECRET_BYTES_MAX
from tests.fakes.log import Log
from tests.fakes.world import FakeClock
from tests.integration.scripted import ScriptedClient, refusal

LONG = ("t" * KEY_TOPIC_LENGTH_MAX,) * KEY_TOPICS_MAX


def cached(
    clock: FakeClock, *answers: str | ClientError, log: Log | None = None
) -> tuple[CachedSecret, ScriptedClient]:
    """A secret of which Secrets Manager tells these texts, or refuses it."""
    client = ScriptedClient([{"SecretString": each} if isinstance(each, str) else each for each in answers])
    return CachedSecret(client, "tagcast/cmq-keys", clock, (log or Log()).logger), client


def test_a_secret_is_read_again_when_it_is_too_old() -> None:
    clock = FakeClock()
    secret, secrets = cached(clock, "first", "second", "third")

    told = []
    for pause_s, age_s_max in ((0, 50), (49, 50), (1, 50), (4, 50), (6, 5)):
        clock.sleep(pause_s)
        told.append(secret.text(age_s_max))

    assert told == ["first", "first", "second", "second", "third"]
    assert secrets.asked == [("get_secret_value", {"SecretId": "tagcast/cmq-keys"})] * 3


def test_a_secret_is_as_old_as_the_question_for_it() -> None:
    clock = FakeClock()

    class Slow(ScriptedClient):
        def get_secret_value(self, **_: str) -> Any:
            clock.sleep(4)
            return self.answers.pop(0)

    slow: Any = Slow([{"SecretString": "first"}, {"SecretString": "second"}])
    secret = CachedSecret(slow, "n", clock, Log().logger)

    assert (secret.text(3), secret.text(3)) == ("first", "second")


@pytest.mark.parametrize("stopped", ["monotonic", "now"])
def test_a_process_that_was_frozen_reads_the_secret_again(stopped: str) -> None:
    clock = FakeClock()
    secret, _ = cached(clock, "with a key", "with the key revoked")
    assert secret.text(50) == "with a key"
    still = getattr(clock, stopped)()
    setattr(clock, stopped, lambda: still)
    clock.sleep(3_600)

    assert secret.text(50) == "with the key revoked"


@pytest.mark.parametrize("code", ["ResourceNotFoundException", "AccessDeniedException", "InvalidRequestException"])
def test_a_secret_that_is_not_there_is_none_and_what_was_read_before_is_forgotten(code: str) -> None:
    clock, log = FakeClock(), Log()
    secret, _ = cached(clock, "kept", refusal(code), log=log)
    assert secret.text(50) == "kept"
    clock.sleep(51)

    assert secret.text(50) is None
    assert [line["error"] for line in log.lines()] == [code]
    assert "kept" not in str(log.lines())


def test_a_service_of_secrets_that_fails_is_asked_again_and_answers_nothing_old() -> None:
    clock = FakeClock()
    secret, _ = cached(clock, "old", refusal("InternalServiceError"), "new")
    secret.text(50)
    clock.sleep(51)

    with pytest.raises(UnavailableError):
        secret.text(50)
    assert secret.text(50) == "new"


def test_a_key_is_never_shown_with_its_secret_part() -> None:
    key = create_key("note", unsigned_at=True)

    assert key.secret_id.startswith("AKID")
    assert len(key.secret_id) == 36
    assert key.secret_key is not None
    assert key.secret_key not in repr(KeyRing((key,)))
    assert key.signs_all is False


def test_keys_are_read_as_they_were_written() -> None:
    ring = KeyRing(
        (create_key("a", unsigned_at=False), create_key("b", unsigned_at=True, topics=("a*", "b")).as_revoked(7))
    )

    assert KeyRing.of(ring.as_text()) == ring
    assert KeyRing.of(None) == KeyRing()


def test_a_revoked_key_has_lost_its_secret_part_and_no_other_has() -> None:
    ring = KeyRing((create_key("a", unsigned_at=False), create_key("b", unsigned_at=False)))

    changed = ring.with_revoked(ring.keys[0].secret_id, 9)

    assert (changed.keys[0].secret_key, changed.keys[0].revoked_at) == (None, 9)
    assert changed.keys[1] == ring.keys[1]


@pytest.mark.parametrize("note", ["n" * 64, "é" * 32, "\x01" * 10])
def test_all_keys_fit_into_one_secret_and_the_oldest_revoked_are_forgotten_first(note: str) -> None:
    assert note_size(note) <= NOTE_BYTES_MAX
    ring, now = KeyRing(), FakeClock().now()
    for number in range(REVOKED_KEPT + 5):
        ring = ring.with_key(CmqKey(f"AKID{number:032d}", "k" * 32, now, note, topics=LONG).as_revoked(now + number))
    for number in range(KEYS_MAX):
        assert not ring.is_full
        ring = ring.with_key(CmqKey(f"AKID{1000 + number:032d}", "k" * 32, now, note, topics=LONG))

    assert ring.is_full
    assert len(ring.keys) == KEYS_MAX + REVOKED_KEPT
    assert ring.find(f"AKID{4:032d}") is None
    assert len(ring.as_text().encode()) < SECRET_BYTES_MAX
