"""The console's HTTP server on a local port."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

from local.console import (
    acts,
    again,
    archive,
    bulk,
    charts,
    costs,
    editing,
    filters,
    groups,
    hosts,
    lanes,
    messages,
    overview,
    search,
    shadows,
    tail,
    topics,
)
from local.console.bulk import BULKS, Bulks
from local.console.desk import DESK, Desk
from local.console.guard import guard_request
from local.front.front import PortInUseError

STATIC = Path(__file__).parent / "static"
FORM_BYTES_MAX = 1_048_576
ROOMS = (
    *(overview, topics, lanes, messages, again, filters, shadows, search, tail),
    *(groups, hosts, archive, costs, charts, acts, bulk, editing),
)


def application(desk: Desk) -> web.Application:
    """Return the application with all pages."""
    app = web.Application(middlewares=[guard_request], client_max_size=FORM_BYTES_MAX)
    app[DESK] = desk
    app[BULKS] = Bulks()
    for room in ROOMS:
        app.add_routes(room.ROUTES)
    app.router.add_static("/static", STATIC)
    return app


class ConsoleServer:
    """A console on 127.0.0.1; call `start`, then `stop`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._application = application(desk)
        self._runner = web.AppRunner(self._application, access_log=None, shutdown_timeout=1)
        self.url = ""

    async def start(self, port: int) -> None:
        """Listen; 0 selects a free port. Raises PortInUseError."""
        await self._desk.charted.start()
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, "127.0.0.1", port).start()
        except OSError as fault:
            raise PortInUseError(f"port {port} of 127.0.0.1 is in use: choose another with --console-port") from fault
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/"
        if self._desk.key is not None:
            self.url += f"?key={self._desk.key}"

    async def stop(self) -> None:
        """Stop the running job, stop listening, and close the connections to the API."""
        await self._desk.jobs.stop()
        await self._application[BULKS].stop()
        await self._desk.stop()
        await self._runner.cleanup()
        await self._desk.api.aclose()
