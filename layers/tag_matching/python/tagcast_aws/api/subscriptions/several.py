"""Many subscriptions in one request: each is read, judged and answered on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from pydantic import StringConstraints
from tagcast.errors import Fault, FaultCode, InvalidRequestError
from tagcast.operating.verification import needs_verification, put_all_verified
from tagcast.ports import World
from tagcast.registry.subscribing import NO_VERSION, Result, StoredSubscription, SubscriptionRequest
from typing_extensions import TypedDict

from tagcast_aws.api import limits
from tagcast_aws.api.http.authorization import ForbiddenError, check_publishing
from tagcast_aws.api.http.body import Body, one_by_one, read
from tagcast_aws.api.http.problems import invalid, problem_of
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.api.publishing.answer import RefusedAnswer
from tagcast_aws.api.subscriptions.client_certificate import certified
from tagcast_aws.api.subscriptions.endpoint import narrowed
from tagcast_aws.api.subscriptions.public_keys import public_keys
from tagcast_aws.api.subscriptions.secret import made
from tagcast_aws.api.subscriptions.settings import SubscriptionAnswer, SubscriptionBody, shown


class NamedSubscription(SubscriptionBody):
    """A subscription with its name; what is left out has its default, but secrets stay as they are."""

    name: Annotated[str, StringConstraints(pattern=limits.NAME)]


class SubscriptionsBody(Body):
    """Subscriptions to be put, each on its own: the items are read one by one, as :class:`NamedSubscription`.

    Unless it is to *replace*, one that exists is refused.
    """

    item_models: ClassVar[tuple[type[Body], ...]] = (NamedSubscription,)

    subscriptions: Annotated[list[Any], one_by_one(NamedSubscription)]
    replace: bool = True


class PutSubscriptionsAnswer(TypedDict):
    """What came of each subscription of a request, in its order, without their lanes."""

    results: list[SubscriptionAnswer | RefusedAnswer]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A subscription as it is asked for, and the secret that only the answer tells, if it was made here."""

    wanted: SubscriptionRequest
    has_to_agree: bool
    untold: str | None


def put_several(world: World, request: Request[SubscriptionsBody]) -> Answer:
    """Create or replace those subscriptions of a request that are valid; the others' places hold their problems."""
    names: set[str] = set()
    items = [_read(world, request, item, names) for item in request.body.subscriptions]
    asked = [item for item in items if isinstance(item, _Asked)]
    asking = {each.wanted.name for each in asked if each.has_to_agree}
    put = put_all_verified(world, request.topic, [each.wanted for each in asked], asking)
    stored = [each.subscription for each in put if isinstance(each, StoredSubscription)]
    keys = dict(zip((each.name for each in stored), public_keys(world, stored), strict=True))
    told = iter(put)
    results = [_result(item, next(told), keys) if isinstance(item, _Asked) else item for item in items]
    return Answer(200, {"results": results})


def _read(world: World, request: Request[SubscriptionsBody], item: object, names: set[str]) -> _Asked | RefusedAnswer:
    """Return what an item asks for, or its problem; *names* are those that stand before it, and then its own, too."""
    body, faults = read(NamedSubscription, item)
    if body is None:
        return _refused(faults)
    if body.name in names:
        return _refused([Fault("is twice in this request", "/name", FaultCode.DUPLICATE)])
    names.add(body.name)
    try:
        settings = body.settings()
        check_publishing(world, request.rights, request.topic, settings.dead_letter_topic, "dead_letter_topic")
        asks = needs_verification(world, body.verification)
        settings = certified(settings, body.client_certificate)
    except (ForbiddenError, InvalidRequestError) as error:
        return _problem(error)
    secret, untold = made(world, settings.secret)
    if_match = None if request.body.replace else NO_VERSION
    wanted = SubscriptionRequest(body.name, replace(settings, secret=secret), if_match, body.keeps)
    return _Asked(wanted, asks, untold)


def _refused(faults: Sequence[Fault]) -> RefusedAnswer:
    return {"error": invalid(faults).as_json()}


def _result(asked: _Asked, result: Result, keys: Mapping[str, Sequence[str]]) -> SubscriptionAnswer | RefusedAnswer:
    if isinstance(result, StoredSubscription):
        answer = shown(result.subscription, keys[asked.wanted.name])
        if asked.untold is not None:
            answer["secret"] = asked.untold
        return answer
    if isinstance(result, InvalidRequestError):
        return _refused([narrowed(fault, asked.wanted.settings.endpoint) for fault in result.faults])
    return _problem(result)


def _problem(error: Exception) -> RefusedAnswer:
    problem = problem_of(error)
    assert problem is not None
    return {"error": problem.as_json()}


ROUTE = Route(
    "POST",
    "/topics/{topic}/subscriptions/batch",
    put_several,
    "Create or replace up to 100 subscriptions; each succeeds or fails on its own",
    {200: PutSubscriptionsAnswer},
    body=SubscriptionsBody,
)
