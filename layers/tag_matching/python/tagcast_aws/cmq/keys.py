"""The keys of the CMQ endpoint: all keys of a deployment, in the text of one secret in Secrets Manager."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace

from tagcast_aws.api.http.authorization import EVERY_TOPIC

KEYS_MAX, REVOKED_KEPT = 100, 50
KEY_TOPICS_MAX, KEY_TOPIC_LENGTH_MAX = 3, 64
NOTE_BYTES_MAX = 64
"""The maximum bytes of a key's note. With such notes, all keys fit into the 64 KiB of one secret."""
SECRET_ID_PREFIX = "AKID"


@dataclass(frozen=True, slots=True)
class CmqKey:
    """A key for the topics that match a pattern in *topics*. A key has at most three patterns.

    *signs_all* is False for programs that do not sign values that begin with an at sign. A revoked key has no
    ``secret_key`` and no topics. It stays in the list, so that its users get a precise error.
    """

    secret_id: str
    secret_key: str | None = field(repr=False)
    created_at: int
    note: str = ""
    signs_all: bool = True
    revoked_at: int | None = None
    topics: tuple[str, ...] = (EVERY_TOPIC,)

    def as_revoked(self, now: int) -> CmqKey:
        """Return a copy of the key, revoked at *now* and without its secret part and topics."""
        return replace(self, secret_key=None, topics=(), revoked_at=now)


@dataclass(frozen=True, slots=True)
class KeyRing:
    """All keys of a deployment, the oldest first."""

    keys: tuple[CmqKey, ...] = ()

    @classmethod
    def of(cls, text: str | None) -> KeyRing:
        """Parse the text that :meth:`as_text` returns; None means no keys.

        >>> KeyRing.of(KeyRing((CmqKey("AKID1", "s", 5),)).as_text()).find("AKID1").created_at
        5
        """
        found = json.loads(text)["keys"] if text else ()
        return cls(tuple(CmqKey(**{**each, "topics": tuple(each["topics"])}) for each in found))

    def as_text(self) -> str:
        """Return the text to store in Secrets Manager."""
        keys = [asdict(key) for key in self.keys]
        return json.dumps({"keys": keys}, ensure_ascii=False, separators=(",", ":"))

    def find(self, secret_id: str) -> CmqKey | None:
        """Return the key with this id, revoked or not; None if it is unknown."""
        return next((key for key in self.keys if key.secret_id == secret_id), None)

    @property
    def is_full(self) -> bool:
        """Whether a key must be revoked before another key is added."""
        return sum(key.revoked_at is None for key in self.keys) >= KEYS_MAX

    def with_key(self, key: CmqKey) -> KeyRing:
        """Return the keys with *key* added. Only the last fifty revoked keys are kept."""
        revoked = [each for each in self.keys if each.revoked_at is not None]
        revoked.sort(key=lambda each: each.revoked_at or 0)
        gone = {each.secret_id for each in revoked[:-REVOKED_KEPT]}
        return KeyRing((*(each for each in self.keys if each.secret_id not in gone), key))

    def with_revoked(self, secret_id: str, now: int) -> KeyRing:
        """Return the keys, with the key *secret_id* revoked at *now*."""
        return KeyRing(tuple(each.as_revoked(now) if each.secret_id == secret_id else each for each in self.keys))


def note_size(note: str) -> int:
    r"""Return the number of bytes that a note takes in the stored text.

    >>> note_size("billing"), note_size("\x01é")
    (7, 8)
    """
    return len(json.dumps(note, ensure_ascii=False).encode()) - 2
