"""Many subscriptions in one request: each is validated, stored and answered separately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from pydantic import StringConstraints
from tagcast.errors import Fault, FaultCode, InvalidRequestError, TooLargeError, UnavailableError
from tagcast.operating.verification import put_all_verified
from tagcast.ports import World
from tagcast.registry.subscribing import NO_VERSION, Result, StoredSubscription, SubscriptionRequest, check_time
from typing_extensions import TypedDict

from tagcast_aws.api import limits
from tagcast_aws.api.http.answer_types import RefusedAnswer
from tagcast_aws.api.http.authorization import ForbiddenError, check_publishing
from tagcast_aws.api.http.body import Body, read, separately_validated
from tagcast_aws.api.http.paging import encoded_size
from tagcast_aws.api.http.problems import invalid_problem, problem_json
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.api.subscriptions.client_certificate import add_certificate
from tagcast_aws.api.subscriptions.endpoint import point_to_target
from tagcast_aws.api.subscriptions.secret import make_secret, public_keys
from tagcast_aws.api.subscriptions.settings import (
    SubscriptionAnswer,
    SubscriptionBody,
    show_subscription,
    with_warnings,
)
from tagcast_aws.api.topics import missing_receiver_warning

REPEATED_BYTES_MAX = 5_500_000
"""The maximum bytes of the valid subscriptions and problems, which the answer repeats. Lambda's limit is 6 MB."""

READ_WITHIN_S = 4.0
"""A request reads no further item after 4 s. A large filter takes long to compile, and the answer compiles it again."""


class NamedSubscription(SubscriptionBody):
    """A subscription with its name. Missing settings get their defaults; missing secrets keep their stored values."""

    name: Annotated[str, StringConstraints(pattern=limits.NAME)]


class SubscriptionsBody(Body):
    """Subscriptions to create or replace. Each item is validated separately, as :class:`NamedSubscription`.

    If *replace* is false, an item that names an existing subscription is refused.
    """

    item_models: ClassVar[tuple[type[Body], ...]] = (NamedSubscription,)

    subscriptions: Annotated[list[Any], separately_validated(NamedSubscription)]
    replace: bool = True


class PutSubscriptionsAnswer(TypedDict):
    """The result for each subscription, in the order of the request, without lanes."""

    results: list[SubscriptionAnswer | RefusedAnswer]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A valid item of the request. Only the answer to this request shows its *generated_secret*."""

    wanted: SubscriptionRequest
    generated_secret: str | None


def put_several(world: World, request: Request[SubscriptionsBody]) -> Answer:
    """Create or replace up to 100 subscriptions; each succeeds or fails on its own.

    Raises TooLargeError if the answer might be too large to be sent.
    """
    came_s, names = world.clock.monotonic(), set[str]()
    items = [_read(world, request, item, names, came_s + READ_WITHIN_S) for item in request.body.subscriptions]
    sent = zip(items, request.body.subscriptions, strict=True)
    if encoded_size([each if isinstance(item, _Asked) else item for item, each in sent]) > REPEATED_BYTES_MAX:
        raise TooLargeError(
            "the answer, which repeats the subscriptions, would be too large; send fewer in one request"
        )
    valid = [item for item in items if isinstance(item, _Asked)]
    put = put_all_verified(world, request.topic, [each.wanted for each in valid], came_s)
    stored = [each.subscription for each in put if isinstance(each, StoredSubscription)]
    keys = dict(zip((each.name for each in stored), public_keys(world, stored), strict=True))
    topics = {each.settings.dead_letter_topic for each in stored} - {None}
    lost = {topic: missing_receiver_warning(world, str(topic), "dead letters") for topic in topics}
    outcomes = iter(put)
    results = [_result(item, next(outcomes), keys, lost) if isinstance(item, _Asked) else item for item in items]
    return Answer(200, {"results": results})


def _read(
    world: World, request: Request[SubscriptionsBody], item: object, names: set[str], until_s: float
) -> _Asked | RefusedAnswer:
    """Return *item* if it is valid, else its problem. *names* has the names of earlier items, and gets that of *item*.

    From *until_s* (monotonic) on, the problem is that the request ran out of time.
    """
    try:
        check_time(world, until_s)
    except UnavailableError as over:
        return {"error": problem_json(over)}
    body, faults = read(NamedSubscription, item)
    if body is None:
        return _show_refusal(faults)
    if body.name in names:
        return _show_refusal([Fault("is twice in this request", "/name", FaultCode.DUPLICATE)])
    names.add(body.name)
    try:
        settings = body.settings()
        check_publishing(world, request.rights, request.topic, settings.dead_letter_topic, "dead_letter_topic")
        settings = add_certificate(settings, body.client_certificate)
    except (ForbiddenError, InvalidRequestError) as error:
        return {"error": problem_json(error)}
    secret, generated_secret = make_secret(world, settings.secret)
    if_match = None if request.body.replace else NO_VERSION
    settings = replace(settings, secret=secret)
    return _Asked(SubscriptionRequest(body.name, settings, if_match, body.keeps, body.verification), generated_secret)


def _show_refusal(faults: Sequence[Fault]) -> RefusedAnswer:
    return {"error": invalid_problem(faults).as_json()}


def _result(
    item: _Asked, result: Result, keys: Mapping[str, Sequence[str]], lost: Mapping[str | None, str | None]
) -> SubscriptionAnswer | RefusedAnswer:
    if isinstance(result, StoredSubscription):
        warning = lost.get(item.wanted.settings.dead_letter_topic)
        made = result.subscription
        answer = with_warnings(show_subscription(made, keys[item.wanted.name]), made, warning)
        if item.generated_secret is not None:
            answer["secret"] = item.generated_secret
        return answer
    if isinstance(result, InvalidRequestError):
        return _show_refusal([point_to_target(fault, item.wanted.settings.endpoint) for fault in result.faults])
    return {"error": problem_json(result)}


_PATH = "/topics/{topic}/subscriptions/batch"
_RESULTS = {200: PutSubscriptionsAnswer}
ROUTE = Route("create_subscriptions", "subscriptions", "POST", _PATH, put_several, _RESULTS, body=SubscriptionsBody)
