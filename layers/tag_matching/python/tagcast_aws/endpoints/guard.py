"""The check of an endpoint at subscribe time, by the same rules as at every push."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LookupTimeoutError
from functools import partial

from tagcast.model import Endpoint, Protocol
from tagcast.resource_names import is_function, is_function_of, is_queue_arn, is_queue_name
from yarl import URL

from tagcast_aws.endpoints.adapter import OF_THE_SERVICE
from tagcast_aws.endpoints.addresses import (
    DOES_NOT_RESOLVE,
    NOT_PUBLIC,
    Lookup,
    all_public,
    literal,
    look_up,
    url_refusal,
)

LOOKUP_S_MAX = 5.0

_QUEUE_FOLDER = re.compile(r"(/[A-Za-z0-9_-]+)*/[0-9]{12}")
_AWS_HOST = re.compile(r"([a-z0-9-]+\.)+amazonaws\.com(\.cn)?|queue\.amazonaws\.com(\.cn)?")


class Guard:
    """Implements the core's EndpointGuard. With *allow_private* any address will do, unresolved.

    Queues whose names begin with *own_queues*, and functions whose names begin with *own_functions*, are the service's
    own, and no endpoints.

    A lookup is waited for in a thread of *make_thread*, since names whose servers are dead take long.
    """

    def __init__(
        self,
        allow_private: bool = False,
        lookup: Lookup | None = None,
        make_thread: Callable[[], Executor] | None = None,
        own_queues: str | None = None,
        own_functions: str | None = None,
    ) -> None:
        self._own_queues = own_queues
        self._own_functions = own_functions
        self._allow_private = allow_private
        self._lookup = lookup or look_up
        self._make_thread = make_thread or partial(ThreadPoolExecutor, 1, thread_name_prefix="dns")

    def refusal(self, endpoint: Endpoint) -> str | None:
        """Return why *endpoint* may not be subscribed, or None."""
        match endpoint.protocol:
            case Protocol.HTTP | Protocol.HTTPS:
                return url_refusal(endpoint.target, endpoint.protocol, self._allow_private) or self._name_refusal(
                    URL(endpoint.target).raw_host or ""
                )
            case Protocol.SQS:
                return self._queue_refusal(endpoint.target) or self._own_queue_refusal(endpoint.target)
            case Protocol.LAMBDA:
                return self._function_refusal(endpoint.target)
            case Protocol.PULL:
                return None

    def _name_refusal(self, host: str) -> str | None:
        if self._allow_private or literal(host) is not None:
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
        return None if all_public(addresses) else NOT_PUBLIC

    def _own_queue_refusal(self, target: str) -> str | None:
        name = re.split("[/:]", target)[-1]
        is_own = self._own_queues is not None and name.startswith(self._own_queues)
        return "is the queue of a group" if is_own else None

    def _function_refusal(self, target: str) -> str | None:
        if not is_function(target):
            return "not a function name or ARN"
        return OF_THE_SERVICE if is_function_of(self._own_functions, target) else None

    def _queue_refusal(self, target: str) -> str | None:
        if is_queue_arn(target):
            return None
        protocol = Protocol.HTTP if self._allow_private and target.startswith("http:") else Protocol.HTTPS
        if (fault := url_refusal(target, protocol, self._allow_private)) is not None:
            return fault
        url = URL(target)
        folder, _, name = url.raw_path.rpartition("/")
        if not _QUEUE_FOLDER.fullmatch(folder) or not is_queue_name(name) or url.raw_query_string:
            return "not a queue URL or ARN"
        known = self._allow_private or _AWS_HOST.fullmatch(url.raw_host or "")
        return None if known else "not a queue of AWS"
