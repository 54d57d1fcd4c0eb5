"""A browser that does what it is told, at a console over a world in memory."""

import asyncio
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import aiohttp
from tagcast_cli.job_run import JobProgram
from tagcast_client import AsyncClient, Client, Retries

from local.console.archive_jobs import JobBoard, LocalJobs
from local.console.desk import Desk
from local.console.server import ConsoleServer
from tests.clients.in_memory_api import InMemoryApi
from tests.fakes.world import FAIL

API = "http://api.test"


@dataclass(frozen=True)
class Seen:
    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def location(self) -> str:
        return self.headers["Location"]

    @property
    def words(self) -> str:
        """What a page says, without its tags."""
        return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", self.text))

    def field(self, name: str) -> str:
        """The value of a hidden field."""
        found = re.search(rf'name="{name}" value="([^"]*)"', self.text)
        assert found is not None, f"no field {name}"
        return unescape(found.group(1))


def faking_jobs(reports: Path) -> JobProgram:
    return JobProgram((sys.executable, str(Path(__file__).parents[2] / "console/fake_job.py"), str(reports)))


class Visitor:
    """Asks a console that runs in a loop of its own; `api` speaks to the same world."""

    def __init__(self, reports: Path, key: str | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self.world = InMemoryApi()
        self.api = Client(API, transport=self.world)
        reached = AsyncClient(API, transport=self.world, retries=Retries(seconds=0))
        self.desk = Desk(
            reached, reports, JobBoard(LocalJobs(reports.parent, faking_jobs(reports))), key=key, fresh_s=0
        )
        self.fakes = self.world.fakes
        self._server = ConsoleServer(self.desk)
        self._loop.run_until_complete(self._server.start(0))
        self.url = self._server.url.partition("?")[0].rstrip("/")

    def close(self) -> None:
        self._loop.run_until_complete(self._server.stop())
        self._loop.close()

    def get(self, path: str, **headers: str) -> Seen:
        return self._loop.run_until_complete(self._ask("GET", path, None, headers))

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Seen:
        """Send a form as a page of the console does, but for what *headers* say otherwise."""
        return self._loop.run_until_complete(self._ask("POST", path, fields, {"Origin": self.url} | headers))

    def act(self, path: str, fields: Mapping[str, str]) -> Seen:
        """Send a form with the token of the console's pages."""
        return self.post(path, {"token": self.desk.token, **fields})

    def fail(self, name: str, *bodies: str) -> None:
        """Publish to another subscriber of orders, which fails."""
        self.api.create_subscription("orders", name, "https://example.com/hook")
        self.fakes.pusher.behaviours[name] = lambda push: FAIL
        self.fakes.publish(*bodies, topic="orders")
        self.fakes.deliver()

    def lane(self, name: str = "billing") -> str:
        """The state of the lane of a subscriber of orders."""
        lane = self.api.get_subscription("orders", name).lane
        assert lane is not None
        return lane.state

    async def _ask(self, method: str, path: str, fields: Mapping[str, str] | None, headers: Mapping[str, str]) -> Seen:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.url + path, data=fields, headers=headers, allow_redirects=False) as got,
        ):
            return Seen(got.status, await got.text(), got.headers)
