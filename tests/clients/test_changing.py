"""Creating, updating and ensuring: what each refuses, changes and keeps, against the shipped handlers."""

import json
import time
from datetime import UTC, datetime, timedelta, timezone

import httpx
import pytest
from tagcast.pushing.envelope import http_request
from tagcast_client import (
    AlreadyExistsError,
    AnyFilter,
    BackoffRetry,
    Client,
    Filter,
    InvalidError,
    LambdaEndpoint,
    NotFoundError,
    PreconditionFailedError,
    Received,
    Receiver,
    Retries,
    SqsEndpoint,
    SubscriptionSettings,
    UnreachableError,
)
from tagcast_client.testing import FakeApi

from tests.clients.in_memory_api import InMemoryApi, lost

URL, HOOK = "http://127.0.0.1:8080", "https://example.com/hook"
SECRET, OTHER = "whsec_" + "QUJD" * 8, "whsec_" + "REVG" * 8
BACKOFF: BackoffRetry = {"strategy": "BACKOFF_RETRY", "max_retries": 5, "interval_seconds": 20}


@pytest.fixture
def client(api: InMemoryApi) -> Client:
    return Client(URL, transport=api, sleep=lambda seconds: None)


@pytest.fixture(params=[InMemoryApi, FakeApi])
def either(request: pytest.FixtureRequest) -> Client:
    """A client of the shipped handlers, then one of the fake for tests of other programs."""
    return Client(URL, transport=request.param(), sleep=lambda seconds: None)


def test_what_exists_is_not_created_again_and_stays_as_it_is(either: Client) -> None:
    either.create_topic("orders", retention_seconds=3600)
    with pytest.raises(AlreadyExistsError):
        either.create_topic("orders")
    either.create_subscription("orders", "billing", HOOK, secret=SECRET)
    with pytest.raises(AlreadyExistsError):
        either.create_subscription("orders", "billing", HOOK)
    assert either.get_topic("orders").retention_seconds == 3600
    assert either.get_subscription("orders", "billing").signatures == ("v1",)


def test_an_update_changes_what_is_named_and_nothing_else(either: Client) -> None:
    either.create_topic("orders", retention_seconds=3600, ordering="key")
    either.create_subscription("orders", "billing", HOOK, secret=SECRET, filter=Filter.tags("paid"), retry=BACKOFF)

    topic = either.update_topic("orders", max_message_bytes=1000)
    subscription = either.update_subscription("orders", "billing", timeout_seconds=5)

    assert (topic.retention_seconds, topic.ordering, topic.max_message_bytes) == (3600, "key", 1000)
    assert (subscription.timeout_seconds, subscription.signatures) == (5, ("v1",))
    assert (subscription.filter, subscription.retry) == (Filter.tags("paid"), BACKOFF)
    assert either.update_topic("orders", retention_seconds=None).retention_seconds == 86_400
    assert either.update_subscription("orders", "billing", secret=None).signatures == ()
    assert either.update_subscription("orders", "billing", filter=None).filter is None
    with pytest.raises(NotFoundError):
        either.update_topic("absent", keep="life")
    with pytest.raises(PreconditionFailedError):
        either.update_topic("orders", keep="life", if_version=1)


def test_an_updated_filter_or_endpoint_is_the_new_one_alone(either: Client) -> None:
    either.create_topic("orders")
    either.create_subscription("orders", "billing", HOOK, filter=Filter.pattern({"a": [1], "c": {"d": [1]}}))
    for wanted in (Filter.pattern({"b": [2], "c": {"e": [1]}}), Filter.sql("price > 5"), Filter.tags("a", "b")):
        assert either.update_subscription("orders", "billing", filter=wanted).filter == wanted
    queue = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders"
    moved = either.update_subscription("orders", "billing", endpoint={"protocol": "sqs", "queue_url": queue})
    assert moved.endpoint == {"protocol": "sqs", "queue_url": queue}
    version = moved.version
    with pytest.raises(PreconditionFailedError):
        either.update_subscription("orders", "billing", endpoint=HOOK, if_version=version - 1)
    assert either.update_subscription("orders", "billing", endpoint=HOOK, if_version=version).version == version + 1


def test_retries_keep_their_numbers_unless_their_strategy_changes(either: Client) -> None:
    either.create_topic("orders")
    either.create_subscription("orders", "billing", HOOK, retry=BACKOFF)
    fewer = either.update_subscription("orders", "billing", retry={"strategy": "BACKOFF_RETRY", "max_retries": 2})
    assert fewer.retry == {**BACKOFF, "max_retries": 2}
    other = either.update_subscription("orders", "billing", retry={"strategy": "EXPONENTIAL_DECAY_RETRY"})
    assert other.retry["strategy"] == "EXPONENTIAL_DECAY_RETRY"
    assert "interval_seconds" not in other.retry


def test_a_subscription_that_is_to_be_ordered_retries_for_life(either: Client) -> None:
    for_life = {"strategy": "BACKOFF_RETRY", "max_retries": "life", "max_interval_seconds": 512}
    either.create_topic("orders")
    created = either.create_subscription("orders", "book", HOOK, ordered=True)
    assert (created.ordered, created.retry) == (True, for_life)
    assert not either.create_subscription("orders", "billing", HOOK).ordered
    updated = either.update_subscription("orders", "billing", ordered=True)
    assert (updated.ordered, updated.retry) == (True, for_life)
    assert either.ensure_subscription("orders", "billing", HOOK, ordered=True).version == updated.version
    either.update_subscription("orders", "billing", retry=BACKOFF)
    assert either.ensure_subscription("orders", "billing", HOOK, retry=None).retry == for_life
    assert not either.ensure_subscription("orders", "billing", HOOK, retry=None, ordered=None).ordered


@pytest.mark.parametrize("present", [{}, {"ordered": True}, {"retry": BACKOFF}], ids=["default", "ordered", "backoff"])
def test_an_order_that_contradicts_the_retries_is_refused_at_each_start(
    client: Client, present: SubscriptionSettings
) -> None:
    client.create_topic("orders")
    before = client.create_subscription("orders", "billing", HOOK, **present)
    for contradiction in (
        SubscriptionSettings(ordered=True, retry={"strategy": "INDEPENDENT_RETRY"}),
        SubscriptionSettings(ordered=False, retry=BACKOFF),
    ):
        with pytest.raises(InvalidError, match=r"/retry/strategy|/ordered"):
            client.ensure_subscription("orders", "billing", HOOK, **contradiction)
    assert client.get_subscription("orders", "billing") == before
    group = SubscriptionSettings(ordered=True, retry={"strategy": "INDEPENDENT_RETRY", "max_retries": 5})
    first = client.ensure_subscription("orders", "workers", {"protocol": "pull"}, **group)
    assert client.ensure_subscription("orders", "workers", {"protocol": "pull"}, **group).version == first.version
    group["retry"] = {"strategy": "INDEPENDENT_RETRY", "max_retries": 6}
    assert client.ensure_subscription("orders", "workers", {"protocol": "pull"}, **group).retry["max_retries"] == 6


def test_a_program_that_starts_makes_what_is_absent_and_keeps_what_it_does_not_name(either: Client) -> None:
    made = either.ensure_topic("orders", retention_seconds=3600)
    assert (made.retention_seconds, made.version) == (3600, either.get_topic("orders").version)
    either.update_topic("orders", max_message_bytes=1000)
    either.ensure_subscription("orders", "billing", HOOK, secret=SECRET, filter=Filter.tags("paid"))
    either.update_subscription("orders", "billing", timeout_seconds=5, headers={"X-Tenant": "a"})

    topic = either.ensure_topic("orders", ordering="key")
    subscription = either.ensure_subscription("orders", "billing", HOOK, filter=Filter.tags("paid", "due"))

    assert (topic.ordering, topic.retention_seconds, topic.max_message_bytes) == ("key", 3600, 1000)
    assert (subscription.filter, subscription.timeout_seconds) == (Filter.tags("paid", "due"), 5)
    assert subscription.signatures == ("v1",)
    with pytest.raises(NotFoundError):
        either.ensure_subscription("absent", "billing", HOOK)


WANTED: dict[str, SubscriptionSettings] = {
    "repeated tag": {"filter": Filter.tags("b", "a", "b")},
    "all of one": {"filter": Filter.tags("a", "a", match="all")},
    "repeated pattern": {"filter": Filter.routing_key("a.*", "b", "a.*")},
    "blanks": {"filter": Filter.tag_expression(" a||b || a")},
    "no expression": {"filter": {"kind": "tag_expression"}},
    "whole numbers": {"filter": Filter.pattern({"price": [{"numeric": [">", 100.0]}, -0.0, 0.5, 1e300]})},
    "defaults": {"timeout_seconds": None, "content_format": None, "signature": None},
    "nothing": {"filter": None, "batch": None, "max_per_second": None, "ordered": None, "dead_letter_expired": None},
    "ordered by its strategy": {"retry": BACKOFF, "ordered": None},
    "ordered by default": {"retry": None, "ordered": True},
    "retries by default": {"retry": None},
    "no secret": {"secret": None},
    "several": {"filter": Filter.sql("a > 5"), "retry": BACKOFF, "secret": SECRET, "timeout_seconds": 5},
}


@pytest.mark.parametrize("wanted", WANTED.values(), ids=WANTED)
def test_a_default_or_another_way_to_write_a_filter_is_not_written_again(
    either: Client, wanted: SubscriptionSettings
) -> None:
    topic = either.ensure_topic("orders", retention_seconds=None, ordering=None, keep="life")
    again = either.ensure_topic("orders", retention_seconds=None, ordering=None, keep="life")
    assert again.version == topic.version
    before = either.ensure_subscription("orders", "billing", HOOK, **wanted)
    assert either.ensure_subscription("orders", "billing", HOOK, **wanted).version == before.version
    either.update_subscription("orders", "billing", timeout_seconds=3)
    assert either.ensure_subscription("orders", "billing", HOOK, timeout_seconds=None).timeout_seconds == 15


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (Filter.tags("a", "b"), Filter.tags("b", "a")),
        (Filter.routing_key("a.*", "b"), Filter.routing_key("b", "a.*")),
        (Filter.tag_expression("a || b"), Filter.tag_expression("b || a")),
    ],
)
def test_another_order_of_tags_or_patterns_is_not_written_again(
    either: Client, first: AnyFilter, other: AnyFilter
) -> None:
    either.create_topic("orders")
    before = either.ensure_subscription("orders", "billing", HOOK, filter=first)
    assert either.ensure_subscription("orders", "billing", HOOK, filter=other).version == before.version
    changed = either.ensure_subscription("orders", "billing", HOOK, filter=Filter.tags("a"))
    assert (changed.filter, changed.version > before.version) == (Filter.tags("a"), True)


def test_a_boolean_in_a_filter_replaces_the_number_that_python_takes_for_it(either: Client) -> None:
    either.create_topic("orders")
    for wanted in (1, True):
        either.ensure_subscription("orders", "paid", HOOK, filter=Filter.pattern({"paid": [wanted]}))
        stored = either.get_subscription("orders", "paid").filter
        assert json.dumps(stored).count(json.dumps([wanted])) == 1


def test_another_secret_is_rotated_so_that_receivers_of_the_former_one_go_on(client: Client) -> None:
    client.ensure_topic("orders")
    client.ensure_subscription("orders", "billing", HOOK, secret=SECRET)
    assert client.ensure_subscription("orders", "billing", HOOK, secret=SECRET).former_secret_ends_at is None
    rotated = client.ensure_subscription("orders", "billing", HOOK, secret=OTHER)
    assert rotated.former_secret_ends_at is not None
    kept = client.ensure_subscription("orders", "billing", HOOK, secret=OTHER)
    assert (kept.version, kept.former_secret_ends_at) == (rotated.version, rotated.former_secret_ends_at)
    assert client.ensure_subscription("orders", "billing", HOOK, secret=None).signatures == ()


@pytest.mark.parametrize("secret", [SECRET, "generate"])
@pytest.mark.parametrize(
    "endpoint",
    [
        SqsEndpoint(protocol="sqs", queue_url="https://sqs.eu-west-1.amazonaws.com/123456789012/orders"),
        LambdaEndpoint(protocol="lambda", function="bill"),
    ],
)
def test_a_secret_that_signs_no_pushes_is_not_written_again_at_each_start(
    client: Client, endpoint: SqsEndpoint | LambdaEndpoint, secret: str
) -> None:
    client.ensure_topic("orders")
    client.ensure_subscription("orders", "billing", endpoint, secret=secret)
    ensured = client.ensure_subscription("orders", "billing", endpoint, secret=secret)
    assert (ensured.version, ensured.secret, ensured.signatures) == (1, None, ())


def test_a_subscription_that_moves_to_a_url_is_signed_by_the_ensured_secret(client: Client) -> None:
    client.ensure_topic("orders")
    client.ensure_subscription("orders", "billing", {"protocol": "lambda", "function": "bill"})
    assert client.ensure_subscription("orders", "billing", HOOK, secret=SECRET).signatures == ("v1",)


def test_a_generated_secret_is_made_once(client: Client) -> None:
    client.ensure_topic("orders")
    assert client.ensure_subscription("orders", "billing", HOOK, secret="generate").secret is not None
    again = client.ensure_subscription("orders", "billing", HOOK, secret="generate")
    assert (again.secret, again.version) == (None, 1)
    client.create_subscription("orders", "unsigned", HOOK)
    assert client.ensure_subscription("orders", "unsigned", HOOK, secret="generate").secret is not None


@pytest.mark.parametrize("exists", [False, True])
def test_a_generated_secret_whose_answer_is_lost_is_an_error(client: Client, api: InMemoryApi, exists: bool) -> None:
    client.ensure_topic("orders")
    if exists:
        client.create_subscription("orders", "billing", HOOK)
    api.accidents = [lambda request: None, lost]
    with pytest.raises(UnreachableError):
        client.ensure_subscription("orders", "billing", HOOK, secret="generate")
    assert client.rotate_secret("orders", "billing", secret="generate").secret is not None


def test_a_group_that_is_there_keeps_the_place_from_which_it_began(client: Client) -> None:
    client.ensure_topic("orders", keep="life")
    made = client.ensure_subscription("orders", "workers", {"protocol": "pull"}, start_from="earliest", ordered=True)
    client.ensure_subscription("orders", "workers", {"protocol": "pull"}, start_from="latest", ordered=True)
    present = client.get_subscription("orders", "workers")
    assert (present.version, present.start_from, present.ordered) == (made.version, "earliest", True)


def test_whatever_answers_are_lost_what_is_ensured_is_there(client: Client, api: InMemoryApi) -> None:
    for accidents in ([lost], [lambda request: None, lost], [lambda request: None, lost, lost, lost]):
        api.accidents = list(accidents)
        name = f"orders{len(accidents)}"
        assert client.ensure_topic(name, retention_seconds=60).retention_seconds == 60
        api.accidents = [lambda request: None, lost]
        assert client.ensure_topic(name, retention_seconds=600).retention_seconds == 600


def test_two_programs_that_start_together_both_get_what_they_name(client: Client, api: InMemoryApi) -> None:
    other = Client(URL, transport=api, retries=Retries(seconds=0))

    def in_between(request: object) -> None:
        other.ensure_topic("orders", max_message_bytes=1000)

    api.accidents = [lambda request: None, in_between]  # Behind the look, before the write.
    ensured = client.ensure_topic("orders", retention_seconds=60)
    assert (ensured.retention_seconds, client.get_topic("orders").max_message_bytes) == (60, 1000)


def test_programs_that_start_together_wait_for_each_other_until_their_time_is_over(api: InMemoryApi) -> None:
    other = Client(URL, transport=api)
    other.create_topic("orders")
    waited: list[float] = []
    client = Client(URL, transport=api, sleep=waited.append, clock=lambda: sum(waited))

    def change(request: httpx.Request) -> None:
        """Change the topic after this client read it, and before it writes."""
        if request.method == "PATCH" and changes:
            other.update_topic("orders", max_message_bytes=changes.pop())
        api.accidents = [change]

    changes, api.accidents = list(range(1001, 1009)), [change]
    assert client.ensure_topic("orders", retention_seconds=60).retention_seconds == 60
    assert len(waited) == 8
    longest = (0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5)
    assert all(wait_s <= longest_s for wait_s, longest_s in zip(waited, longest, strict=True))
    changes = list(range(2000, 3000))
    with pytest.raises(PreconditionFailedError):
        client.ensure_topic("orders", retention_seconds=70)
    assert sum(waited[8:]) <= 20
    assert len(waited[8:]) >= 4


def test_a_name_that_is_no_setting_is_refused_before_anything_is_sent(client: Client, api: InMemoryApi) -> None:
    for call in (client.create_topic, client.update_topic, client.ensure_topic):
        with pytest.raises(TypeError, match="'retention' is not a setting: allowed are events_topic"):
            call("orders", retention=60)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'timeout' is not a setting"):
        client.ensure_subscription("orders", "billing", HOOK, timeout=5)  # type: ignore[call-arg]
    assert api.requests == []


NAIVE = datetime(2027, 1, 15)  # noqa: DTZ001 - what is refused
AWARE = datetime(2027, 1, 15, 9, 0, 0, 123_456, tzinfo=timezone(timedelta(hours=1)))


def test_an_instant_may_be_a_datetime_that_says_its_offset(client: Client, api: InMemoryApi) -> None:
    client.create_topic("orders", keep="life")
    group = client.create_subscription("orders", "workers", {"protocol": "pull"}, start_from=AWARE)
    assert group.start_from == "2027-01-15T08:00:00.123Z"
    client.heartbeat("orders", "others", "c", None, start_from=AWARE)
    assert client.get_subscription("orders", "others").start_from == "2027-01-15T08:00:00.123Z"
    client.publish("orders", {"at": AWARE})
    assert json.loads(json.loads(api.requests[-1].content)["body"]) == {"at": "2027-01-15T08:00:00.123Z"}


@pytest.mark.parametrize("naive", [NAIVE, "2027-01-15T08:00:00"])
def test_an_instant_without_an_offset_is_refused_before_anything_is_sent(
    client: Client, api: InMemoryApi, naive: datetime | str
) -> None:
    pull = {"protocol": "pull"}
    with pytest.raises(ValueError, match=r"2027-01-15T.* has no time zone: add one"):
        client.create_subscription("orders", "workers", {"protocol": "pull"}, start_from=naive)
    with pytest.raises(ValueError, match="has no time zone"):
        client.ensure_subscription("orders", "workers", {"protocol": "pull"}, start_from=naive)
    with pytest.raises(ValueError, match="has no time zone"):
        client.heartbeat("orders", "workers", "c", None, start_from=naive)
    with pytest.raises(ValueError, match="has no time zone"):
        client.request("PUT", "/topics/orders/subscriptions/s", {"endpoint": pull, "start_from": NAIVE})
    with pytest.raises(ValueError, match="has no time zone"):
        client.publish("orders", {"at": NAIVE})
    with pytest.raises(ValueError, match="has no time zone"):
        client.read_history("orders", since=naive)
    assert api.requests == []


def test_what_is_no_json_is_refused_before_anything_is_sent(client: Client, api: InMemoryApi) -> None:
    with pytest.raises(TypeError, match="cannot be written as JSON"):
        client.publish("orders", {"at": {1, 2}})
    assert api.requests == []


def test_one_listener_serves_what_is_pushed_and_what_is_pulled(client: Client, api: InMemoryApi) -> None:
    def heard(message: Received) -> tuple[object, ...]:
        assert message.expires_at is not None
        life_s = (message.expires_at - (message.accepted_at or datetime.now(UTC))).total_seconds()
        return (
            message.body, message.text(), message.json(), message.content_type, message.ordering_key, message.tags,
            message.properties, message.routing_key, life_s,
        )  # fmt: skip

    client.create_topic("orders", ordering="key", retention_seconds=3600)
    client.create_subscription("orders", "billing", HOOK, secret=SECRET)
    client.create_subscription("orders", "workers", {"protocol": "pull"})
    message_id = client.publish(
        "orders", {"a": "ä"}, tags=["x"], ordering_key="k", routing_key="a.b", properties={"p": "1"}
    ).message_id
    shown = client.get_message("orders", message_id)
    api.fakes.deliver()

    [pulled] = client.pull("orders", "workers")
    [push] = api.fakes.pusher.pushes
    request = http_request(push, round(time.time() * 1000), "0.1.0")
    pushed = Receiver(SECRET).verify(request.headers, request.body)

    assert heard(pulled) == heard(pushed)
    assert heard(pulled)[:5] == ('{"a": "ä"}'.encode(), '{"a": "ä"}', {"a": "ä"}, "application/json", "k")
    assert (shown.body, shown.text(), shown.json()) == heard(pulled)[:3]
    assert heard(pulled)[-1] == 3600


def test_a_message_whose_body_is_left_out_says_so(client: Client, api: InMemoryApi) -> None:
    client.create_topic("orders")
    client.create_subscription("orders", "billing", HOOK)
    client.pause("orders", "billing")
    client.publish("orders", "x")
    api.fakes.deliver()
    [listed] = client.list_messages("orders")
    assert listed.body is None
    with pytest.raises(ValueError, match="no body: it is deleted"):
        listed.text()


def test_a_null_inside_a_filter_is_refused_because_a_patch_would_remove_the_condition(client: Client) -> None:
    client.create_topic("orders")
    client.create_subscription("orders", "billing", HOOK, filter=Filter.pattern({"b": [1]}))
    wider = Filter.pattern({"status": None, "b": [1]})

    with pytest.raises(ValueError, match="'status' in 'pattern' must not be null"):
        client.update_subscription("orders", "billing", filter=wider)
    with pytest.raises(ValueError, match="'status' in 'pattern' must not be null"):
        client.ensure_subscription("orders", "billing", HOOK, filter=wider)
    assert client.get_subscription("orders", "billing").filter == {**Filter.pattern({"b": [1]})}
