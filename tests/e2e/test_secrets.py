"""Secrets are planted wherever they can be given; what was said, printed and kept of their story has none of them."""

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import httpx
import pytest
from tagcast_cli.app import app
from typer.testing import CliRunner

from tests.certificates import Certified, Issuer
from tests.http_server import Handler, serving
from tests.permissions.uses import USES
from tests.running_stack import RunningStack, wait_until

pytestmark = pytest.mark.e2e

KEY = b"planted-key-of-a-subscription-4711"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"
PATH, QUERY, TOKEN, ANSWER = "planted-path-4712", "planted-query-4713", "planted-token-4714", "planted-answer-4715"
OWN, REFUSED = "planted-header-4719", "planted-header-4720"
MALFORMED, PASSWORD, BODY = "whsec_planted-4716", "planted-password-4717", "planted-body-4718"
TOPIC = "secrets"
ISSUER = Issuer("planted")
CLIENT = ISSUER.issue("planted")
MISFIT = Certified(CLIENT.chain, ISSUER.issue("another").key)
ROWS = "engine/journal/"
"""Where the engine keeps the tables: rows need the URL of a subscription, and what its attempts met."""


def pair(certified: Certified) -> dict[str, str]:
    return {"certificate": certified.chain, "private_key": certified.key}


class Hook(Handler):
    """A receiver that fails, and says something in every place where an answer can say it."""

    seen: ClassVar[list[Mapping[str, str]]]

    def serve(self) -> None:
        self.body()
        self.seen.append({**self.headers, "path": self.path})
        self.send_response(500, ANSWER)
        self.send_header("x-told", ANSWER)
        self.send_header("content-length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER.encode())


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[Mapping[str, str]]]]:
    class Receiver(Hook):
        seen: ClassVar[list[Mapping[str, str]]] = []

    with serving(Receiver) as server:
        yield f"{server}/{PATH}?key={QUERY}", Receiver.seen


def spellings(secret: str) -> list[bytes]:
    """A secret as it is, and as it would look in Base64 (at any offset) or in a URL."""
    encoded = [base64.b64encode(b"x" * skip + secret.encode())[4:-4] for skip in range(3)]
    return [secret.encode(), *encoded, quote(secret, safe="").encode()]


def found_in(content: bytes, secrets: tuple[str, ...]) -> list[str]:
    return [secret for secret in secrets if any(spelling in content for spelling in spellings(secret))]


def kept(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_secret_is_said_printed_or_kept_in_clear(
    stack: RunningStack, receiver: tuple[str, list[Mapping[str, str]]]
) -> None:
    url, seen = receiver
    subscription = f"/topics/{TOPIC}/subscriptions/hook"
    answers: list[bytes] = []

    with httpx.Client(base_url=stack.url, headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False) as api:

        def ask(method: str, path: str, body: Any = None) -> Any:
            answer = api.request(method, path, json=body)
            answers.append(json.dumps(dict(answer.headers)).encode() + answer.content)
            return answer.json() if answer.content else None

        ask("PUT", f"/topics/{TOPIC}", {})
        settings = {"endpoint": {"protocol": "http", "url": url}, "secret": SECRET, "headers": {"X-Own": OWN}}
        ask("PUT", subscription, settings)
        ask("PUT", f"/topics/{TOPIC}/subscriptions/refused", settings | {"secret": MALFORMED})
        ask("PUT", f"/topics/{TOPIC}/subscriptions/refused", settings | {"headers": {"cookie": REFUSED}})
        certified = {
            "endpoint": {"protocol": "https", "url": "https://127.0.0.1:1/"},
            "client_certificate": pair(CLIENT),
        }
        ask("PUT", f"{subscription}-certified", certified)
        ask("PUT", f"/topics/{TOPIC}/subscriptions/refused", certified | {"client_certificate": pair(MISFIT)})
        walled = {"endpoint": {"protocol": "http", "url": f"http://somebody:{PASSWORD}@127.0.0.1/"}}
        ask("PUT", f"/topics/{TOPIC}/subscriptions/refused", walled)
        exchange = {"secret": "generate", "grace_seconds": 600}
        made = str(api.request("POST", f"{subscription}/secret/rotate", json=exchange).json()["secret"])
        sent = ask("POST", f"/topics/{TOPIC}/messages", {"body": BODY})["message_id"]

        message = f"/topics/{TOPIC}/messages/{sent}"
        assert wait_until(lambda: json.dumps(ask("GET", message)).count("blocked") > 1 and len(seen) > 1)
        for path in (f"{subscription}/backlog", f"{subscription}/versions", f"{message}/explain?subscription=hook"):
            ask("GET", path)
        spoken = [CliRunner().invoke(app, ["--url", stack.url, "--token", TOKEN, *words]).output for words in (
            ("lane", TOPIC, "hook"), ("message", TOPIC, sent), ("message", TOPIC, "0" * 20),
            ("subscription", "list", TOPIC),
        )]  # fmt: skip
        saved = f"SECRETS#{TOPIC}".encode()
        rows = [content for name, content in kept(stack.folder).items() if name.startswith(ROWS)]
        assert any(saved in content for content in rows), "the engine has kept what it answered for"
        ask("DELETE", subscription)
        assert wait_until(lambda: stack.archived("subscriptions", TOPIC) and stack.archived("deliveries", TOPIC))

    assert [each[:3] for each in seen[0]["webhook-signature"].split(" ")] == ["v1,", "v1,"]
    assert seen[0]["x-own"] == OWN
    assert seen[0]["path"] == f"/{PATH}?key={QUERY}"
    never = (SECRET, KEY.decode(), made, made.removeprefix("whsec_"), TOKEN, MALFORMED, PASSWORD, OWN, REFUSED,
             *(each.key.splitlines()[1] for each in (CLIENT, MISFIT)))  # fmt: skip
    beside = (PATH, QUERY, ANSWER)  # The API shows them to who may look at a subscription and at its attempts.
    for said in answers:
        assert found_in(said, never) == [], said
    for printed in spoken:
        assert found_in(printed.encode(), never) == []
    assert found_in(stack.output.encode(), (*never, *beside, BODY)) == []
    archived = [stack.archived(kind, TOPIC) for kind in ("messages", "deliveries", "subscriptions", "lanes")]
    assert found_in(json.dumps(archived).encode(), (*never, *beside)) == []
    files = kept(stack.folder)
    for name, content in files.items():
        allowed = set(beside) if name.startswith(ROWS) else set()
        assert set(found_in(content, (*never, *beside))) <= allowed, name
    assert found_in(files["engine/engine.log"] + USES.read_bytes(), (*never, *beside, BODY)) == []
