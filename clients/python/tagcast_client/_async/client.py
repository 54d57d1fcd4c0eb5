"""The client. `_sync` is built from `_async` by `hatch_build.py`; change `_async`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from tagcast_client._async.operations import AsyncOperations
from tagcast_client.batches import named_again
from tagcast_client.changing import (
    GENERATE,
    check_names,
    needs_present,
    patch_of,
    settings_of,
    subscription_patch,
    topic_patch,
)
from tagcast_client.decoding import decode
from tagcast_client.models import Accepted, Refused, Subscription, Tail, Topic
from tagcast_client.operation import (
    Answer,
    Operation,
    idempotency,
    if_match,
    list_of,
    part_key,
    path_of,
    query_of,
    reads,
)
from tagcast_client.outgoing import ArchivedMessage, Body, MessageAttributes, NewMessage, check_items
from tagcast_client.settings import (
    Endpoint,
    NamedSubscription,
    SubscriptionChanges,
    SubscriptionSettings,
    TopicSettings,
)
from tagcast_client.tracing import current_trace

T = TypeVar("T")
TAIL_WAIT_S = 20


class AsyncClient(AsyncOperations):
    """A client of the API at *url*, by default the URL in the environment variable ``TAGCAST_URL``.

    Without *auth*, the client signs requests to AWS with the default AWS credentials. Other requests are not signed.

    If an answer is lost, or is 429, 500, 502, 503 or 504, the client repeats the request if that is safe. *retries*
    limits the repetitions. Publishing is safe to repeat, because it has an idempotency key. A refused request raises
    `ProblemError`, a missing answer `UnreachableError`. Use the client as a context manager, or close it.
    """

    async def publish(
        self,
        topic: str,
        body: Body,
        *,
        idempotency_key: str | None = None,
        **attributes: Unpack[MessageAttributes],
    ) -> Accepted:
        """Publish one message. The API accepts it once, even if the client repeats the request.

        An object or a list as *body* becomes JSON. `MessageAttributes` lists the other attributes of a message. Without
        *idempotency_key*, each call gets a new key.
        """
        check_names(MessageAttributes, attributes, "an attribute of a message")
        message = NewMessage.like(attributes, body)
        headers = {"Idempotency-Key": idempotency(idempotency_key), **current_trace()}
        path = path_of("topics", topic, "messages")
        return await self._send(Operation("POST", path, reads(Accepted), message.as_json(), headers=headers))

    async def publish_batch(
        self, topic: str, messages: Iterable[NewMessage], *, idempotency_key: str | None = None
    ) -> tuple[Accepted | Refused, ...]:
        """Publish any number of messages in order, split into requests by the API's limits.

        Each message has its own result: `Accepted`, or `Refused` with its problem. A repeated call with the same
        messages and the same *idempotency_key* publishes nothing twice; None means a new key. Raises
        BatchInterruptedError when a request fails after an earlier request was accepted.
        """
        path = path_of("topics", topic, "messages", "batch")
        return await self._publish_parts(path, check_items(NewMessage, messages), idempotency_key, current_trace())

    async def replay(
        self, topic: str, subscription: str, messages: Iterable[ArchivedMessage], *, idempotency_key: str | None = None
    ) -> tuple[Accepted | Refused, ...]:
        """Replay archived messages to one subscription. Limits, results, keys and errors are as in `publish_batch`."""
        path = path_of("topics", topic, "subscriptions", subscription, "replay")
        return await self._publish_parts(path, check_items(ArchivedMessage, messages), idempotency_key, {})

    async def _publish_parts(
        self,
        path: str,
        messages: Sequence[NewMessage | ArchivedMessage],
        idempotency_key: str | None,
        trace: Mapping[str, str],
    ) -> tuple[Accepted | Refused, ...]:
        key = idempotency(idempotency_key)

        def publish(part: Sequence[Mapping[str, Any]], place: int) -> Operation[tuple[Accepted | Refused, ...]]:
            headers = {"Idempotency-Key": part_key(key, place), **trace}
            return Operation("POST", path, _reads_results(Accepted), {"messages": part}, headers=headers)

        return await self._send_parts(publish, [message.as_json() for message in messages])

    async def ensure_topic(self, topic: str, **settings: Unpack[TopicSettings]) -> Topic:
        """Create the topic if it does not exist. Otherwise update the named settings; all other settings stay.

        Call the method at the start of a program.
        """
        wanted = settings_of(TopicSettings, settings)
        return await self._ensure(path_of("topics", topic), Topic, lambda present: topic_patch(present, wanted), wanted)

    async def ensure_subscription(
        self, topic: str, subscription: str, endpoint: str | Endpoint, **settings: Unpack[SubscriptionSettings]
    ) -> Subscription:
        """Create the subscription if it does not exist. Otherwise update the named settings; all other settings stay.

        Call the method at the start of a program. A *secret* replaces the present one; for a day pushes are also signed
        with the old secret. The value `generate` generates a secret, but only for a subscription without a secret. If
        the answer with the generated secret is lost, the method raises UnreachableError; then call `rotate_secret`.
        *start_from* is for a new group only. Headers and certificates are write-only, so they are set each time.
        """
        wanted = settings_of(SubscriptionSettings, settings, endpoint=endpoint)
        path = path_of("topics", topic, "subscriptions", subscription)
        ensured = await self._ensure(path, Subscription, lambda present: subscription_patch(present, wanted), wanted)
        secret = settings.get("secret")
        if secret in (None, GENERATE) or "v1" not in ensured.signatures:  # Only pushes over HTTP are signed.
            return ensured
        return await self.rotate_secret(topic, subscription, secret=secret)

    async def update_subscription(
        self, topic: str, subscription: str, *, if_version: int | None = None, **changes: Unpack[SubscriptionChanges]
    ) -> Subscription:
        """Update the named settings. The value None resets or removes a setting. All other settings stay, also secrets.

        A filter and an endpoint are replaced as a whole, and headers are merged. With *if_version*, raise
        PreconditionFailedError if the subscription has another version. Raises NotFoundError if it does not exist.
        """
        wanted = settings_of(SubscriptionChanges, changes)
        path = path_of("topics", topic, "subscriptions", subscription)
        if needs_present(wanted):
            if if_version is None:
                return await self._ensure(path, Subscription, lambda present: patch_of(present, wanted))
            wanted = patch_of(await self.get_subscription(topic, subscription), wanted)
        headers, is_repeatable = if_match(if_version), if_version is None
        change = Operation("PATCH", path, reads(Subscription), wanted, headers=headers, repeatable=is_repeatable)
        return await self._send(change)

    async def create_subscriptions(
        self, topic: str, subscriptions: Iterable[NamedSubscription], *, replace: bool = False
    ) -> tuple[Subscription | Refused, ...]:
        """Create any number of subscriptions, split into requests by the API's limits.

        Give each subscription a `name`, an `endpoint` and the settings of `create_subscription`. Each subscription has
        its own result: the subscription without its lane, or `Refused` with the problem. An existing subscription is
        refused; with *replace* its settings are replaced as a whole. Raises BatchInterruptedError when a part fails
        after an earlier part succeeded. Raises ValueError, and creates nothing, when a name is given twice.
        """
        wanted = [settings_of(NamedSubscription, each) for each in check_items(Mapping, subscriptions)]
        if again := named_again(wanted):
            raise ValueError(f"the name {wanted[again[0]]['name']!r} is given twice")
        path = path_of("topics", topic, "subscriptions", "batch")

        def create(part: Sequence[Mapping[str, Any]], place: int) -> Operation[tuple[Subscription | Refused, ...]]:
            body = {"subscriptions": part, "replace": replace}
            return Operation("POST", path, _reads_results(Subscription), body, repeatable=replace)

        return await self._send_parts(create, wanted)

    async def watch(
        self,
        topic: str,
        *,
        kind: str | None = None,
        subscription: str | None = None,
        state: str | None = None,
    ) -> AsyncGenerator[Tail, None]:
        """Yield a `Tail` whenever there are new events, from now on and without end.

        *kind*, *subscription* and *state* select events, as in `tail`.
        """
        narrowed: dict[str, Any] = {"kind": kind, "subscription": subscription, "state": state}
        cursor = (await self.tail(topic, max_events=0)).next_cursor
        while True:
            tail = await self.tail(topic, cursor=cursor, wait_seconds=TAIL_WAIT_S, **narrowed)
            cursor = tail.next_cursor
            if tail.events or tail.left_out:
                yield tail

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str | int | None] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send any request and return the unchanged answer. Raises the same errors as the other methods.

        A POST is repeated only after 429 or a refused connection. *path* must begin with a slash. Any other *path*
        raises ValueError, because it could change the host, and the wrong host would get the token.
        """
        if not path.startswith("/"):
            raise ValueError(f"{path!r} is not a path of the API: it must begin with /, for example /topics")
        sent = query_of(query or {})
        is_repeatable = method != "POST"
        operation = Operation(method, path, lambda answer: answer, body, sent, headers or {}, repeatable=is_repeatable)
        return await self._send(operation)


def _reads_results(kind: type[T]) -> Callable[[Answer], tuple[T | Refused, ...]]:
    """Return a reader of batch answers. For each item of the batch it returns a *kind*, or a `Refused`."""
    return lambda answer: tuple(
        decode(Refused, each) if "error" in each else decode(kind, each) for each in list_of(answer, "results")
    )
