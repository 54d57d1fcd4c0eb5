"""The interface of endpoint adapters, :class:`EndpointAdapter`, and the settings and objects that adapters share."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tagcast.model import Outcome, Push, PushBatch, Subscription
from tagcast.ports import Clock
from tagcast.pushing.content_formats import DEFAULT_ACCOUNT
from tagcast.pushing.push_slots import SLOTS
from tagcast.pushing.webhook_signature import Sign

from tagcast_aws.endpoints.addresses import Lookup
from tagcast_aws.runtime.settings import Reach

if TYPE_CHECKING:
    from aiohttp.connector import SocketFactoryType

THREADS_MAX = SLOTS + 100
"""A thread for each push in flight, and some for look-ups and calls that outlast their push. Lambda allows 1,024."""

OF_THE_SERVICE = "begins with the stack's name and -, like the functions of the service"
OF_A_GROUP = "is the queue of a group"

ClientFactory = Callable[..., Any]
MakeTls = Callable[[], ssl.SSLContext]


def threads_for_pushes() -> ThreadPoolExecutor:
    """Return the pool of threads for blocking parts of pushes. Threads start on demand."""
    return ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="push")


class AwsConnections:
    """The connections of AWS clients, which share the process's file descriptors with the pool of HTTP connections.

    A client opens a connection for each concurrent call, and keeps it open. At most *most* such connections are open;
    *make_room* is called each time *most* has grown. Each function in *closers* closes a client's idle connections, and
    returns their number.
    """

    def __init__(self) -> None:
        self.most = 0
        self.make_room: Callable[[], None] = lambda: None
        self.closers: list[Callable[[], int]] = []

    def grow(self) -> None:
        """Count another connection."""
        self.most += 1
        self.make_room()

    def close_idle(self) -> None:
        """Close the idle connections of clients without a running call."""
        self.most -= sum(close() for close in self.closers)


@dataclass(frozen=True, slots=True)
class AdapterEnvironment:
    """The settings and objects of adapters. None for *make_tls*, *lookup* or *make_client* means the real function.

    - *make_tls* creates TLS contexts, and *lookup* resolves a host name. *make_client* has the signature of
      ``boto3.client``, and *make_socket* that of aiohttp's socket factory.
    - All protocols share *threads*, because a push needs one thread at a time.
    - *account* and *region* are those of the deployment; *sign* signs with the service's keys.
    - *aws_connections* counts the connections of AWS clients, so that HTTP leaves descriptors for them.
    - Adapters invoke no function whose name begins with *own_functions*, and write to no queue whose name begins with
      *own_queues*.
    """

    clock: Clock
    version: str
    reach: Reach = Reach.PUBLIC
    make_tls: MakeTls | None = None
    lookup: Lookup | None = None
    make_client: ClientFactory | None = None
    make_socket: SocketFactoryType | None = None
    threads: ThreadPoolExecutor = field(default_factory=threads_for_pushes)
    aws_connections: AwsConnections = field(default_factory=AwsConnections)
    account: str = DEFAULT_ACCOUNT
    region: str | None = None
    own_functions: str | None = None
    own_queues: str | None = None
    sign: Sign | None = None

    def tls(self) -> ssl.SSLContext:
        """Return a TLS context for connections to endpoints. A receiver cannot choose expensive handshakes.

        Without elliptic curves, TLS 1.2 lets a receiver choose a modulus of up to 10,000 bits. That takes 1.3 s of CPU
        time, in which no push goes on. A renegotiation is another handshake, and a receiver may ask for any number.
        """
        context = (self.make_tls or ssl.create_default_context)()
        names = [each["name"] for each in context.get_ciphers() if each["kea"] == "kx-ecdhe"]
        context.set_ciphers(":".join(names))
        context.options |= ssl.OP_NO_RENEGOTIATION
        return context


class EndpointAdapter(Protocol):
    """Delivers to the endpoints of one protocol, on one event loop."""

    async def deliver(self, push: Push) -> Outcome:
        """Make one attempt within the subscription's timeout."""

    async def deliver_batch(self, batch: PushBatch) -> Outcome:
        """Make several attempts in one request within the subscription's timeout."""

    async def close(self) -> None:
        """Close all connections."""


def timeout_outcome(subscription: Subscription) -> Outcome:
    """Return the outcome of a request that timed out."""
    return Outcome(False, f"timeout after {subscription.settings.timeout_s} s", unreached=True)
