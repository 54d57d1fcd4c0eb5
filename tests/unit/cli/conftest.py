"""A fake of the API over real HTTP, with canned answers, and a way to run the command line against it."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import typer.main
from moto import mock_aws
from tagcast_cli.app import app
from typer.testing import CliRunner, Result

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
        self._answers: dict[str, tuple[int, str, str]] = {}
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                sent = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = json.loads(sent) if sent else None
                fake.requests.append(Request(self.command, self.path, headers, body))
                status, media_type, text = fake.answer_to(self.command, self.path)
                content = text.encode()
                self.send_response(status)
                self.send_header("content-type", media_type)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def teach(self, route: str, answer: Any = None, status: int = 200) -> None:
        media_type = "application/problem+json" if status >= 400 else "application/json"
        text = "" if answer is None else answer if isinstance(answer, str) else json.dumps(answer)
        self._answers[route] = (status, media_type, text)

    def answer_to(self, method: str, path: str) -> tuple[int, str, str]:
        unknown = (404, "application/problem+json", json.dumps({"title": "Not found", "status": 404}))
        return self._answers.get(f"{method} {path}", unknown)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


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


@pytest.fixture
def api() -> Iterator[FakeApi]:
    fake = FakeApi()
    yield fake
    fake.close()


@pytest.fixture
def run(api: FakeApi) -> Run:
    def run_command(*words: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, ["--url", api.url, *words], input=stdin)

    return run_command
