"""Routes of subscriptions and their lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from tagcast.errors import InvalidRequestError
from tagcast.instant import rfc3339
from tagcast.model import Subscription
from tagcast.operating.lane_changes import LaneChange, change_lane
from tagcast.operating.lanes import LaneView, backlog, lane_view, lane_views, retry_topic
from tagcast.operating.urgent_lanes import urgent_lanes
from tagcast.operating.verification import put_verified, verify
from tagcast.ports import World
from tagcast.pulling.group import queue_counts
from tagcast.registry.subscribing import SubscriptionRequest
from tagcast.registry.subscriptions import (
    change_filter,
    delete_subscription,
    filter_versions,
    get_subscription,
    list_subscriptions,
    rotate_secret,
)
from tagcast.tables import fitting

from tagcast_aws.api.filters import NewFilterBody
from tagcast_aws.api.http.authorization import check_publishing
from tagcast_aws.api.http.body import EmptyBody
from tagcast_aws.api.http.paging import PAGING, encode_cursor, encoded_size, page
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.api.limits import NAME, PAGE_BYTES_MAX, PAGE_MAX
from tagcast_aws.api.subscriptions.client_certificate import add_certificate
from tagcast_aws.api.subscriptions.endpoint import point_to_target
from tagcast_aws.api.subscriptions.lane import (
    BacklogAnswer,
    LaneAnswer,
    LanesAnswer,
    SkipBody,
    UrgentLanesAnswer,
    show_delivery,
    show_lane,
    show_urgent_lane,
)
from tagcast_aws.api.subscriptions.lane_acts import ROUTES as BULK
from tagcast_aws.api.subscriptions.patch import SubscriptionPatch
from tagcast_aws.api.subscriptions.patch import change as change_subscription
from tagcast_aws.api.subscriptions.secret import RotationBody, make_secret, public_keys
from tagcast_aws.api.subscriptions.settings import (
    SubscriptionAnswer,
    SubscriptionBody,
    SubscriptionsAnswer,
    VersionsAnswer,
    show_subscription,
    show_version,
    with_warnings,
)
from tagcast_aws.api.subscriptions.several import ROUTE as SEVERAL
from tagcast_aws.api.topics import missing_receiver_warning

T = TypeVar("T")


def put(world: World, request: Request[SubscriptionBody]) -> Answer:
    """Create or replace a subscription."""
    dead_letters = request.body.settings().dead_letter_topic
    check_publishing(world, request.rights, request.topic, dead_letters, "dead_letter_topic")
    version, body = _wanted_version(world, request, may_create=True), request.body
    settings = add_certificate(body.settings(), body.client_certificate)
    secret, generated_secret = make_secret(world, settings.secret)
    settings = replace(settings, secret=secret)
    wanted = SubscriptionRequest(request.subscription, settings, version, body.keeps, body.verification)
    try:
        subscription, is_new = put_verified(world, request.topic, wanted)
    except InvalidRequestError as error:
        raise InvalidRequestError(tuple(point_to_target(fault, settings.endpoint) for fault in error.faults)) from None
    return answer_with_lane(world, subscription, 201 if is_new else 200, _secrets_once(generated_secret))


def change(world: World, request: Request[SubscriptionPatch]) -> Answer:
    """Update a subscription."""
    known = get_subscription(world, request.topic, request.subscription)
    dead_letters = request.body.named_fields().get("dead_letter_topic")
    check_publishing(world, request.rights, request.topic, dead_letters, "dead_letter_topic")
    wanted = _wanted_version(world, request)
    if not request.body.model_fields_set:
        return answer_with_lane(world, known, 200)
    changed, generated_secret = change_subscription(world, request.topic, request.subscription, request.body, wanted)
    return answer_with_lane(world, changed, 200, _secrets_once(generated_secret))


def put_filter(world: World, request: Request[NewFilterBody]) -> Answer:
    """Replace the filter only."""
    wanted = _wanted_version(world, request)
    changed = change_filter(world, request.topic, request.subscription, request.body.filter, wanted)
    return answer_with_lane(world, changed, 200)


def rotate(world: World, request: Request[RotationBody]) -> Answer:
    """Rotate the secret."""
    wanted = _wanted_version(world, request)
    secret, generated_secret = make_secret(world, request.body.secret)
    assert secret is not None
    grace_s = request.body.grace_seconds
    rotated, ends_at = rotate_secret(world, request.topic, request.subscription, secret, grace_s, wanted)
    return answer_with_lane(world, rotated, 200, _secrets_once(generated_secret, ends_at))


def verify_endpoint(world: World, request: Request[EmptyBody]) -> Answer:
    """Verify the endpoint again."""
    return answer_with_lane(world, verify(world, request.topic, request.subscription), 200)


def _secrets_once(secret: str | None, former_ends_at: int | None = None) -> dict[str, str]:
    """Return the fields that only the answer to this request has: a generated secret, and the end of the former one."""
    secrets = {} if secret is None else {"secret": secret}
    return secrets if former_ends_at is None else secrets | {"former_secret_ends_at": rfc3339(former_ends_at)}


def answer_subscription(world: World, request: Request[None]) -> Answer:
    """Get a subscription and its lane."""
    return answer_with_lane(world, get_subscription(world, request.topic, request.subscription), 200)


def answer_subscriptions(world: World, request: Request[None]) -> Answer:
    """List the subscriptions."""
    found = list_subscriptions(world, request.topic, *request.page(NAME))
    lanes, keys = lane_views(world, request.topic, found.items), public_keys(world, found.items)
    items = [show_subscription(item, its, lane) for item, its, lane in zip(found.items, keys, lanes, strict=True)]
    shown, cursor = _that_fit(items, [item.name for item in found.items], found.cursor)
    return Answer(200, page("subscriptions", shown, encode_cursor(cursor)))


def _that_fit(items: Sequence[T], places: Sequence[str], cursor: str | None) -> tuple[list[T], str | None]:
    """Return the first *items* that fit an answer, and the cursor after them. *places* has the cursor of each item."""
    shown = next(fitting(items, PAGE_MAX, PAGE_BYTES_MAX, encoded_size), ())
    return list(shown), cursor if len(shown) == len(items) else places[len(shown) - 1]


def delete(world: World, request: Request[None]) -> Answer:
    """Delete a subscription."""
    wanted = _wanted_version(world, request)
    delete_subscription(world, request.topic, request.subscription, wanted)
    return Answer(204)


def act_on_lane(change: LaneChange, world: World, request: Request[EmptyBody]) -> Answer:
    """Pause or resume a subscription, or retry its head now, as *change* says.

    Raises ConflictError if the lane's state forbids the change.
    """
    return _lane(world, request, change_lane(world, change, request.topic, request.subscription))


def skip_in_lane(world: World, request: Request[SkipBody]) -> Answer:
    """Cancel the head."""
    reason, message_id = request.body.reason, request.body.message_id
    lane = change_lane(
        world, LaneChange.SKIP, request.topic, request.subscription, reason=reason, message_id=message_id
    )
    return _lane(world, request, lane)


def _lane(world: World, request: Request[Any], lane: LaneView) -> Answer:
    present = get_subscription(world, request.topic, request.subscription).settings
    return Answer(200, show_lane(lane, is_unverified=present.unverified is not None))


def answer_backlog(world: World, request: Request[None]) -> Answer:
    """List the backlog."""
    limit, cursor = request.page("[0-9]{20}#[0-9]{20}")
    found = backlog(world, request.topic, request.subscription, limit, cursor)
    items = [show_delivery(item) for item in found.items]
    return Answer(200, page("deliveries", items, encode_cursor(found.cursor)))


def answer_urgent_lanes(world: World, request: Request[None]) -> Answer:
    """List the lanes that are not active."""
    found = urgent_lanes(world, *request.page())
    return Answer(200, page("lanes", [show_urgent_lane(item) for item in found.items], encode_cursor(found.cursor)))


def answer_versions(world: World, request: Request[None]) -> Answer:
    """List the filter's versions."""
    limit, cursor = request.page("[1-9][0-9]{0,9}")
    found = filter_versions(world, request.topic, request.subscription, limit, cursor)
    items, places = [show_version(each) for each in found.items], [str(each.version) for each in found.items]
    shown, cursor = _that_fit(items, places, found.cursor)
    return Answer(200, page("versions", shown, encode_cursor(cursor)))


def retry_blocked(world: World, request: Request[EmptyBody]) -> Answer:
    """Retry the blocked subscriptions of a topic now, for at most ten seconds; repeat the request for more."""
    return Answer(202, {"lanes": list(retry_topic(world, request.topic))})


def answer_with_lane(
    world: World, subscription: Subscription, status: int, extra: Mapping[str, str] | None = None
) -> Answer:
    """Answer with one subscription, its lane and its warnings. *extra* has more fields, such as a generated secret."""
    [keys] = public_keys(world, [subscription])
    lane, counts = lane_view(world, subscription), queue_counts(world, subscription)
    dead_letters = subscription.settings.dead_letter_topic
    lost = None if dead_letters is None else missing_receiver_warning(world, dead_letters, "dead letters")
    answer = with_warnings(show_subscription(subscription, keys, lane, counts), subscription, lost)
    return Answer(status, {**answer, **(extra or {})}, {"ETag": f'"{subscription.version}"'})


def _wanted_version(world: World, request: Request[Any], *, may_create: bool = False) -> int | None:
    """Return the version that a conditional request requires; None without a condition."""

    def present() -> int:
        return get_subscription(world, request.topic, request.subscription).version

    return request.version("subscription", present, may_create=may_create)


_ALL = "/topics/{topic}/subscriptions"
_ONE = f"{_ALL}/{{subscription}}"
_LANE, _SHOWN = {200: LaneAnswer}, {200: SubscriptionAnswer}
_MADE = {201: SubscriptionAnswer, **_SHOWN}
_TAG, _IF, _IF_ANY = "subscriptions", ("If-Match",), ("If-Match", "If-None-Match")

ROUTES = (
    Route("list_lanes", "lanes", "GET", "/lanes", answer_urgent_lanes, {200: UrgentLanesAnswer}, query=PAGING),
    *BULK,
    SEVERAL,
    Route("list_subscriptions", _TAG, "GET", _ALL, answer_subscriptions, {200: SubscriptionsAnswer}, query=PAGING),
    Route("create_subscription", _TAG, "PUT", _ONE, put, _MADE, body=SubscriptionBody, headers=_IF_ANY),
    Route("update_subscription", _TAG, "PATCH", _ONE, change, _SHOWN, body=SubscriptionPatch, headers=_IF),
    Route("update_filter", _TAG, "PUT", f"{_ONE}/filter", put_filter, _SHOWN, body=NewFilterBody, headers=_IF),
    Route("get_subscription", _TAG, "GET", _ONE, answer_subscription, _SHOWN),
    Route("delete_subscription", _TAG, "DELETE", _ONE, delete, {204: None}, headers=_IF),
    Route("rotate_secret", _TAG, "POST", f"{_ONE}/secret/rotate", rotate, _SHOWN, body=RotationBody, headers=_IF),
    Route("verify_endpoint", _TAG, "POST", f"{_ONE}/verify", verify_endpoint, _SHOWN, body=EmptyBody),
    *(
        Route(act, "lanes", "POST", f"{_ONE}/{act}", partial(act_on_lane, act), _LANE, body=EmptyBody, summary=summary)
        for act, summary in (
            (LaneChange.PAUSE, "Pause a subscription"),
            (LaneChange.RESUME, "Resume a subscription"),
            (LaneChange.RETRY, "Retry the head now"),
        )
    ),
    Route("skip", "lanes", "POST", f"{_ONE}/skip", skip_in_lane, _LANE, body=SkipBody),
    Route("list_backlog", "lanes", "GET", f"{_ONE}/backlog", answer_backlog, {200: BacklogAnswer}, query=PAGING),
    Route("list_versions", _TAG, "GET", f"{_ONE}/versions", answer_versions, {200: VersionsAnswer}, query=PAGING),
    Route("retry_topic", "lanes", "POST", "/topics/{topic}/retry", retry_blocked, {202: LanesAnswer}, body=EmptyBody),
)
