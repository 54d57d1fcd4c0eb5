"""Endpoints of a benchmark, in a process of their own, so that they take no time from what is measured."""

import asyncio
import multiprocessing
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection


class Receiver(asyncio.Protocol, ABC):
    """Answers each request when it is complete, as `answer` says."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.got = b""

    def data_received(self, chunk: bytes) -> None:
        self.got += chunk
        head, separator, body = self.got.partition(b"\r\n\r\n")
        if not separator or len(body) < int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]):
            return
        self.got = b""
        content, delay_s = self.answer(head)
        if content:
            asyncio.get_running_loop().call_later(delay_s, self.transport.write, content)

    @abstractmethod
    def answer(self, head: bytes) -> tuple[bytes, float]:
        """What a request with this head is answered, and after how many seconds; nothing means never."""


def _serve(ready: Connection, receiver: type[Receiver]) -> None:
    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(receiver, "0.0.0.0", 0, backlog=4096)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(forever())


@contextmanager
def receivers(receiver: type[Receiver]) -> Iterator[int]:
    """Serve on all addresses of this machine until the block ends; answers of the port."""
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    process = spawning.Process(target=_serve, args=(there, receiver), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.terminate()
        process.join()
