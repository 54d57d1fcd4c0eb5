"""The resolver of the HTTP pusher: it checks exactly the addresses to which the pusher then connects."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from concurrent.futures import Executor
from contextlib import ExitStack
from weakref import WeakValueDictionary

from aiohttp.abc import AbstractResolver, ResolveResult

from tagcast_aws.endpoints.addresses import DOES_NOT_RESOLVE, Lookup, are_reachable, look_up, refused_address
from tagcast_aws.runtime.settings import Reach

CHECKED_MAX, TRIED_MAX = 64, 8
"""The maximum addresses of a name that are checked, and tried. A receiver's name server may send thousands.

If all of n addresses refuse connections, aiohttp tries to connect n (n + 1) / 2 times.
"""

LOOKUPS_MAX, OF_DOMAIN_MAX = 700, 50
"""The maximum look-ups at once: of all names, and of names with the same last two labels.

A look-up may outlast its push by many seconds, and keeps its thread meanwhile. AWS's clients need the other threads.
"""


class AddressRefusedError(OSError):
    """A name resolves to an address that endpoints must not have."""


class CheckedResolver(AbstractResolver):
    """Resolves names in threads. Refuses a name if one of its first 64 addresses is beyond *reach*.

    Connections use exactly the returned addresses (at most 8), so a changed DNS answer has no effect (DNS rebinding).
    """

    def __init__(self, reach: Reach, threads: Executor, lookup: Lookup | None = None) -> None:
        self._reach = reach
        self._lookup = lookup or look_up
        self._threads = threads
        self._places = asyncio.Semaphore(LOOKUPS_MAX)
        self._of_domain: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of *host*. Raises AddressRefusedError, or another OSError if there are none."""
        try:
            addresses = (await self._look_up(host))[:CHECKED_MAX]
        except UnicodeError as error:
            raise OSError(DOES_NOT_RESOLVE) from error
        if not addresses:
            raise OSError(DOES_NOT_RESOLVE)
        if not are_reachable(addresses, self._reach):
            raise AddressRefusedError(refused_address(self._reach))
        return [_result(host, address, port) for address in addresses[:TRIED_MAX]]

    async def _look_up(self, host: str) -> list[str]:
        """Look a name up in a thread. Its places become free with the thread, even if the push ends before."""
        domain = ".".join(host.rstrip(".").split(".")[-2:])
        own = self._of_domain.setdefault(domain, asyncio.Semaphore(OF_DOMAIN_MAX))
        with ExitStack() as places:
            for each in (own, self._places):
                await each.acquire()
                places.callback(each.release)
            found = asyncio.get_running_loop().run_in_executor(self._threads, self._lookup, host)
            held = places.pop_all()
        found.add_done_callback(lambda _: held.close())
        return await asyncio.shield(found)

    async def close(self) -> None:
        """Do nothing: the threads are shared by all pushes."""


def _result(host: str, address: str, port: int) -> ResolveResult:
    version = ipaddress.ip_address(address.partition("%")[0]).version
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=socket.AF_INET if version == 4 else socket.AF_INET6,
        proto=0,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
