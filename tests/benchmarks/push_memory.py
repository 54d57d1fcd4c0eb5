"""Resident memory of a first round at its worst: ``python -m tests.benchmarks.push_memory``.

90 receivers under decay answer the first of ten messages and then hang, so that their windows are open; each body is
256 KiB of control characters, which JSON makes six times as large.
"""

import multiprocessing
import resource
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from tagcast.model import RetryPolicy, Strategy, TopicSettings
from tagcast.registry import topics
from tagcast.registry.subscriptions import put_subscription
from tagcast_aws.endpoints.adapter import AdapterEnvironment
from tagcast_aws.endpoints.pusher import EndpointPusher
from tagcast_aws.runtime.settings import Reach
from tagcast_aws.runtime.system import SystemClock, ThreadExecutor

from functions.fan_out.app import handle
from tests.fakes.queue_records import in_one_order
from tests.fakes.settings import settings_for
from tests.fakes.world import FakeWorld

DECAY = RetryPolicy(Strategy.EXPONENTIAL_DECAY_RETRY, 176)
SUBSCRIBERS, MESSAGES, BODY_BYTES = 90, 10, 256 * 1024
RESIDENT_MIB_MAX = 256


@contextmanager
def answering_once() -> Iterator[int]:
    """Serve on all loopback addresses: each answers one request and then lets everything wait, unread."""
    server = socket.create_server(("0.0.0.0", 0), backlog=4096)
    seen: Counter[str] = Counter()
    kept: list[socket.socket] = []

    def answer(connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(4096)
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        left = length - len(head.partition(b"\r\n\r\n")[2])
        while left > 0:
            left -= len(connection.recv(65_536))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        connection.close()

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            address = connection.getsockname()[0]
            seen[address] += 1
            if seen[address] == 1:
                threading.Thread(target=answer, args=(connection,), daemon=True).start()
            else:
                kept.append(connection)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server.getsockname()[1]
    finally:
        server.close()


def serve(port: int) -> tuple[float, int, int]:
    """Serve the batch; return the process's peak in MiB, and how many pushes began and were at most under way."""
    begun, under_way, most = 0, 0, 0

    class Counting(EndpointPusher):
        async def push(self, push):  # type: ignore[no-untyped-def]
            nonlocal begun, under_way, most
            begun, under_way = begun + 1, under_way + 1
            most = max(most, under_way)
            try:
                return await super().push(push)
            finally:
                under_way -= 1

    fake, clock = FakeWorld(), SystemClock()
    pusher = Counting(AdapterEnvironment(clock, "0", reach=Reach.ANY))
    fake.world = world = replace(fake.world, clock=clock, pusher=pusher, executor=ThreadExecutor())
    topics.put_topic(world, "test1", TopicSettings(3600, body_bytes_max=BODY_BYTES))
    for number in range(SUBSCRIBERS):
        settings = settings_for(f"http://127.1.0.{number + 1}:{port}/", DECAY, timeout_s=10, secret="whsec_c2VjcmV0")
        put_subscription(world, "test1", f"s{number}", settings)
    ids = fake.publish(*("\x01" * BODY_BYTES for _ in range(MESSAGES)))
    pusher.run(handle(in_one_order(ids), world))
    pusher.close()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, begun, most


def measure() -> tuple[float, int, int]:
    """Serve the batch in a process of its own."""
    with answering_once() as port, ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(serve, port).result()


def main() -> None:
    """Print the figures; exit with a fault when the windows did not open or memory is over its bound."""
    resident_mib, begun, most = measure()
    print(f"{begun} pushes began, at most {most} under way: {resident_mib:.0f} MiB resident at most")
    assert most > SUBSCRIBERS
    raise SystemExit("over the bound" if resident_mib >= RESIDENT_MIB_MAX else 0)


if __name__ == "__main__":
    main()
