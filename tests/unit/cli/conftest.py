"""A fake of the API over real HTTP, with canned answers, and a way to run the command line against it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import typer.main
from moto import mock_aws
from tagcast_cli.app import app
from tagcast_client.version import API_VERSION
from typer.testing import CliRunner, Result

from tests.http_server import Handler, serving
from tests.unit.cli.aws import REGION

Run = Callable[..., Result]
SUBSCRIPTION = {
    "topic": "test1",
    "name": "A",
    "version": 1,
    "endpoint": {"protocol": "http", "url": "http://127.0.0.1:9000/"},
    "filter": {"kind": "tags", "tags": ["apple"]},
    "retry": {"strategy": "BACKOFF_RETRY", "max_retries": 3, "interval_seconds": 15},
    "timeout_seconds": 15,
    "content_format": "json",
    "ordered": True,
    "signatures": [],
    "created_at": "2026-11-20T12:00:00.000Z",
    "updated_at": "2026-11-20T12:00:00.000Z",
}


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class FakeApi:
    """Answers the routes it was taught and remembers what was asked."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.url = ""
        self.headers = {"tagcast-version": API_VERSION}
        self._answers: dict[str, tuple[int, str, str]] = {}

    def teach(self, route: str, answer: Any = None, status: int = 200) -> None:
        media_type = "application/problem+json" if status >= 400 else "application/json"
        text = "" if answer is None else answer if isinstance(answer, str) else json.dumps(answer)
        self._answers[route] = (status, media_type, text)

    def answer_to(self, method: str, path: str) -> tuple[int, str, str]:
        unknown = (404, "application/problem+json", json.dumps({"title": "Not found", "status": 404}))
        return self._answers.get(f"{method} {path}", unknown)


@pytest.fixture(scope="session", autouse=True)
def built_once() -> Iterator[None]:
    """Let Typer build the commands once; otherwise each test builds all of them, which takes longer than the test."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("typer.testing._get_command", cache(typer.main.get_command))
        yield


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An AWS account with nothing in it."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        yield


@contextmanager
def fake_api() -> Iterator[FakeApi]:
    fake = FakeApi()

    class Serving(Handler):
        protocol_version = "HTTP/1.1"

        def serve(self) -> None:
            sent = self.body()
            headers = {name.lower(): value for name, value in self.headers.items()}
            fake.requests.append(Request(self.command, self.path, headers, json.loads(sent) if sent else None))
            status, media_type, text = fake.answer_to(self.command, self.path)
            self.answer(status, text.encode(), {"content-type": media_type, **fake.headers})

    with serving(Serving) as fake.url:
        yield fake


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with fake_api() as fake:
        yield fake


@pytest.fixture
def run(api: FakeApi) -> Run:
    def run_command(*words: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, ["--url", api.url, *words], input=stdin)

    return run_command
