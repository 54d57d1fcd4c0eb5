"""What every page of the console works with: the API, the templates, the token of its forms."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web
from jinja2 import Environment
from tagcast_client import AsyncClient

from local.console.archive_jobs import JobBoard
from local.console.rendering import environment

T = TypeVar("T")
SIDE_BY_SIDE_MAX = 8
"""So many questions a page asks the API at once."""


@dataclass(frozen=True)
class Desk:
    """One console; *reports* is where jobs leave their pages, *jobs* who runs them, *time_scale* the stack's.

    *key* is what the address that was printed has and nobody else knows; None lets in everybody on this machine.
    """

    api: AsyncClient
    reports: Path
    jobs: JobBoard
    time_scale: float = 1.0
    key: str | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    templates: Environment = field(default_factory=environment)

    def page(self, template: str, status: int = 200, **values: Any) -> web.Response:
        """Render a page."""
        text = self.templates.get_template(template).render(
            token=self.token, api_url=self.api.url, template=template, **values
        )
        return web.Response(status=status, text=text, content_type="text/html")


DESK = web.AppKey("desk", Desk)


def desk_of(request: web.Request) -> Desk:
    """Return the desk that serves a request."""
    return request.app[DESK]


async def together(questions: Iterable[Awaitable[T]]) -> list[T]:
    """Return the answers to *questions* in their order; a few of them are asked at a time."""
    places = asyncio.Semaphore(SIDE_BY_SIDE_MAX)

    async def asked(question: Awaitable[T]) -> T:
        async with places:
            return await question

    return list(await asyncio.gather(*map(asked, questions)))
