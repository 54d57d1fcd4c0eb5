"""The parts that all pages share: the API client, the templates, and the token of forms."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web
from jinja2 import Environment
from tagcast_client import AsyncClient
from tagcast_client.models import Topic, UrgentLane

from local.console.archive_jobs import JobBoard
from local.console.attention import BacklogCounts
from local.console.cached_list import FRESH_S, PAGE, CachedList
from local.console.minutes import MinuteFile
from local.console.rendering import environment
from local.console.samples import Charted, Samples

NAMES_MAX = 1_000
MINUTES = "minutes.sqlite"
"""The file of sampled minutes, in the folder of the reports."""


@dataclass
class Desk:
    """The objects that all pages of one console share. *reports* is the folder of HTML reports.

    *jobs* runs the archive's jobs. The stack makes waits *time_scale* times shorter. *key* is a part of the address
    that the console prints. If *key* is None, the console admits all local users. Lists are cached for *fresh_s*
    seconds. *metrics* is the source of the charts; if it is None, the console samples the topics. Each form contains
    *token*, so that other sites cannot send it.
    """

    api: AsyncClient
    reports: Path
    jobs: JobBoard
    time_scale: float = 1.0
    key: str | None = None
    fresh_s: float = FRESH_S
    metrics: Charted | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    templates: Environment = field(default_factory=environment)
    lanes: CachedList[UrgentLane] = field(init=False)
    topics: CachedList[Topic] = field(init=False)
    backlogs: BacklogCounts = field(init=False)
    charted: Charted = field(init=False)

    def __post_init__(self) -> None:
        self.lanes = CachedList(self.api.list_lanes(limit=PAGE), self.fresh_s)
        self.topics = CachedList(self.api.list_topics(limit=PAGE), self.fresh_s)
        self.backlogs = BacklogCounts(self.api)
        self.charted = self.metrics or Samples(self.api, MinuteFile(self.reports.parent / MINUTES, self.api.url))

    def forget(self) -> None:
        """Expire the caches after a change from this console."""
        self.lanes.forget()
        self.topics.forget()
        self.backlogs.forget()

    async def stop(self) -> None:
        """Stop background reads, and the sampling of topics."""
        await asyncio.gather(self.lanes.stop(), self.topics.stop(), self.backlogs.stop(), self.charted.stop())

    async def topic_names(self) -> list[str]:
        """Return the names of topics that a form field suggests."""
        return [each.name for each in (await self.topics.look_if_possible())[:NAMES_MAX]]

    def page(self, template: str, status: int = 200, **values: Any) -> web.Response:
        """Return a response with the rendered *template*. *values* are its variables."""
        text = self.templates.get_template(template).render(
            token=self.token, api_url=self.api.url, template=template, read_at=datetime.now(UTC), **values
        )
        return web.Response(status=status, text=text, content_type="text/html")


DESK = web.AppKey("desk", Desk)


def desk_of(request: web.Request) -> Desk:
    """Return the objects that all pages of the console share."""
    return request.app[DESK]


async def form_fields(request: web.Request) -> dict[str, str]:
    """Return the fields of the submitted form. The line ends are LF; browsers send CR and LF."""
    return {name: str(value).replace("\r\n", "\n") for name, value in (await request.post()).items()}
