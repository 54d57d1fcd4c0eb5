"""Checks an endpoint before it is stored, by the same rules as at every push."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LookupTimeoutError
from functools import partial

from tagcast.model import Endpoint, Protocol
from tagcast.resource_names import function_named, queue_named
from yarl import URL

from tagcast_aws.endpoints.adapter import OF_A_GROUP, OF_THE_SERVICE
from tagcast_aws.endpoints.addresses import (
    DOES_NOT_RESOLVE,
    Lookup,
    are_reachable,
    literal,
    look_up,
    refused_address,
    url_refusal,
)
from tagcast_aws.runtime.settings import Reach

LOOKUP_S_MAX = 5.0


class Guard:
    """Implements the core's EndpointGuard. Under Reach.ANY no name is resolved.

    Queues and functions of the service must not be endpoints. Their names begin with *own_queues* or *own_functions*.

    Names are resolved in a thread from *make_thread*, because a name server that does not answer takes long.
    """

    def __init__(
        self,
        reach: Reach = Reach.PUBLIC,
        lookup: Lookup | None = None,
        make_thread: Callable[[], Executor] | None = None,
        own_queues: str | None = None,
        own_functions: str | None = None,
    ) -> None:
        self._own_queues = own_queues
        self._own_functions = own_functions
        self._reach = reach
        self._lookup = lookup or look_up
        self._make_thread = make_thread or partial(ThreadPoolExecutor, 1, thread_name_prefix="dns")

    def refusal(self, endpoint: Endpoint) -> str | None:
        """Return why *endpoint* must not be subscribed, or None if it may be."""
        match endpoint.protocol:
            case Protocol.HTTP | Protocol.HTTPS:
                return url_refusal(endpoint.target, endpoint.protocol, self._reach) or self._name_refusal(
                    URL(endpoint.target).raw_host or ""
                )
            case Protocol.SQS:
                return self._queue_refusal(endpoint.target)
            case Protocol.LAMBDA:
                return self._function_refusal(endpoint.target)
            case Protocol.PULL:
                return None

    def _name_refusal(self, host: str) -> str | None:
        if self._reach is Reach.ANY or literal(host) is not None:
            return None
        thread = self._make_thread()
        try:
            addresses = thread.submit(self._lookup, host).result(LOOKUP_S_MAX)
        except (OSError, UnicodeError, LookupTimeoutError):
            return DOES_NOT_RESOLVE
        finally:
            thread.shutdown(wait=False)
        if not addresses:
            return DOES_NOT_RESOLVE
        return None if are_reachable(addresses, self._reach) else refused_address(self._reach)

    def _function_refusal(self, target: str) -> str | None:
        function = function_named(target)
        if function is None:
            return "not a function name or ARN"
        return OF_THE_SERVICE if function.begins_with(self._own_functions) else None

    def _queue_refusal(self, target: str) -> str | None:
        queue = queue_named(target, elsewhere=True)
        if queue is None:
            return "not a queue URL or ARN"
        if queue.begins_with(self._own_queues):
            return OF_A_GROUP
        if queue_named(target) is not None:
            return None
        if self._reach is not Reach.ANY:
            return "not a queue of AWS"
        return url_refusal(target, Protocol.HTTP if target.startswith("http:") else Protocol.HTTPS, self._reach)
