"""Tencent's client in one process with the function: what it would send over HTTP is handed over as an event."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from functions.cmq import app
from tests.cmq import sdk
from tests.cmq.asking import HOME, KEY, FixedSecret, event_of
from tests.fakes.world import FakeWorld

HOST = "cmq.example.test"
BATCH = 16


@dataclass(frozen=True)
class Answer:
    """An answer as the client's connection hands it on."""

    status: int
    header: dict[str, str]
    data: str


@dataclass
class Connection:
    """Stands in the place of the client's HTTP connection."""

    fake: FakeWorld
    secret: FixedSecret

    def is_keep_alive(self) -> bool:
        return False

    def send_request(self, request: Any, _: str) -> Answer:
        event = event_of(request.data, method=request.method, path=request.uri, host=HOST)
        answer = app.handle(event, self.fake.world, self.secret, HOME)
        return Answer(answer["statusCode"], answer["headers"], answer["body"])


class Time:
    """The clock of a world, in the place of the module that the client asks."""

    def __init__(self, fake: FakeWorld) -> None:
        self._fake = fake

    def time(self) -> float:
        return self._fake.clock.now() / 1000


class Program:
    """A program that was written for CMQ, and the world behind its endpoint."""

    def __init__(self, fake: FakeWorld, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.fake = fake
        self.account = sdk.account(f"https://{HOST}", KEY.secret_id, KEY.secret_key or "", folder)
        self.account.get_client().http = Connection(fake, FixedSecret())
        from cmq import cmq_client

        patch.setattr(cmq_client, "time", Time(fake))

    def topic(self, name: str) -> None:
        self.account.get_topic(name).create(sdk.topic_meta())

    def subscribe(self, topic: str, name: str, *tags: str, strategy: str = "BACKOFF_RETRY") -> None:
        meta = sdk.subscription_meta(f"http://{name}.test/", FilterTag=list(tags), NotifyStrategy=strategy)
        self.account.get_subscription(topic, name).create(meta)

    def publish(self, topic: str, bodies: list[str], *tags: str) -> list[str]:
        """Publish in batches as large as CMQ takes; return the ids."""
        sent: list[Any] = []
        for start in range(0, len(bodies), BATCH):
            batch = [sdk.message(body) for body in bodies[start : start + BATCH]]
            sent += self.account.get_topic(topic).batch_publish_message(batch, msgtag=list(tags))
        return [str(each.msgId) for each in sent]
