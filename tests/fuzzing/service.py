"""The shipped handlers over a world in memory, as a WSGI application that a fuzzer asks."""

import base64
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from tagcast.model import Outcome, Push, PushBatch

from tests.fakes.handlers import answered
from tests.fakes.world import FAIL, OK, FakePusher, FakeWorld

PAGES_MAX = 50


class Endpoints(FakePusher):
    """Endpoints of which those of every other length of name fail, so that something is pending."""

    async def push(self, push: Push) -> Outcome:
        return OK if len(push.subscription.name) % 2 else FAIL

    async def push_batch(self, batch: PushBatch) -> Outcome:
        return await self.push(batch.pushes[0])


class Service:
    """One service with all that it stores; `deliver` does what its queue asks for."""

    def __init__(self) -> None:
        self.fakes = FakeWorld(pusher=Endpoints())
        self.wrote = False
        """Whether the last request wrote a row."""

    def __call__(
        self, environ: Mapping[str, Any], start_response: Callable[[str, list[tuple[str, str]]], object]
    ) -> Iterable[bytes]:
        headers = {name[5:].replace("_", "-").lower(): environ[name] for name in environ if name.startswith("HTTP_")}
        if environ.get("CONTENT_TYPE"):
            headers["content-type"] = environ["CONTENT_TYPE"]
        length = int(environ.get("CONTENT_LENGTH") or 0)
        sent = environ["wsgi.input"].read(length) if length else b""
        query = f"?{environ['QUERY_STRING']}" if environ.get("QUERY_STRING") else ""
        answer = self.ask(environ["REQUEST_METHOD"], f"{environ['REQUEST_URI']}{query}", sent, headers)
        start_response(f"{answer['statusCode']} -", list(answer["headers"].items()))
        return [(answer["body"] or "").encode()]

    def ask(
        self, method: str, target: str, content: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        writes = self.fakes.store.writes
        body = base64.b64encode(content).decode() if content else None
        answer = answered(self.fakes.world, method, target, body, headers, is_base64=True)
        self.wrote = self.fakes.store.writes != writes
        return answer

    def deliver(self) -> None:
        self.fakes.deliver()

    def everything(self) -> Iterator[tuple[str, int, Any]]:
        """All that is stored, as the API shows it: the operation, its status and its answer."""
        for topic in self._items("list_topics", "/topics", "topics"):
            one = yield from self._shown("get_topic", f"/topics/{quote(topic['name'])}")
            path = f"/topics/{quote(one['name'])}"
            for each in self._items("list_messages", f"{path}/messages", "messages"):
                yield from self._shown("get_message", f"{path}/messages/{each['message_id']}")
            for each in self._items("list_subscriptions", f"{path}/subscriptions", "subscriptions"):
                subscription = f"{path}/subscriptions/{each['name']}"
                yield from self._shown("get_subscription", subscription)
                yield from self._shown("list_versions", f"{subscription}/versions")
                yield from self._shown("list_backlog", f"{subscription}/backlog")
        yield from self._shown("list_lanes", "/lanes")
        yield from self._shown("list_hosts", "/hosts")

    def _items(self, operation: str, path: str, key: str) -> list[Any]:
        found: list[Any] = []
        cursor = ""
        for _ in range(PAGES_MAX):
            [(_, status, page)] = list(self._shown(operation, f"{path}?limit=100{cursor}"))
            assert status == 200, page
            found += page[key]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        return found

    def _shown(self, operation: str, target: str) -> Generator[tuple[str, int, Any], None, Any]:
        answer = self.ask("GET", target)
        shown = json.loads(answer["body"])
        yield operation, answer["statusCode"], shown
        return shown
