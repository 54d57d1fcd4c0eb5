"""The client against the shipped handlers: what it sends, what it reads, and what it does when things go wrong."""

import asyncio
import inspect
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, cast, get_args, get_type_hints, is_typeddict

import httpx
import pytest
import tagcast_client
from tagcast_client import (
    Accepted,
    AsyncClient,
    BatchInterruptedError,
    Client,
    ConflictError,
    Consumer,
    Deduplicator,
    Filter,
    InvalidError,
    NamedSubscription,
    NewMessage,
    NotFoundError,
    PreconditionFailedError,
    Receiver,
    Refused,
    Retries,
    ServerError,
    ThrottledError,
    UnexpectedAnswerError,
    UnreachableError,
)
from tagcast_client.batches import BATCH_BYTES_MAX, parts
from tagcast_client.models import Subscription
from tagcast_client.settings import AnyFilter

from tests.clients.in_memory_api import Accident, InMemoryApi, lost, refused, status, undecodable
from tests.fakes.stream import FakeStream
from tests.fakes.world import FAIL
from tests.http_server import Handler, serving

URL = "http://127.0.0.1:8080/"
HOOK = "https://example.com/hook"
SECRET = "whsec_QUJDREVGR0hJSktMTU5PUFFSU1RVVldY"
NEVER = Retries(seconds=0)


class Waits:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.waited.append(seconds)

    def now(self) -> float:
        return sum(self.waited)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def client(api: InMemoryApi, waits: Waits) -> Client:
    made = Client(URL, transport=api, sleep=waits, clock=waits.now)
    made.create_topic("orders")
    return made


def test_the_version_is_that_of_the_package() -> None:
    package = tomllib.loads((Path(__file__).parents[2] / "clients/python/pyproject.toml").read_text())
    assert tagcast_client.__version__ == package["project"]["version"]


def test_an_object_or_a_list_is_published_as_json(client: Client, api: InMemoryApi) -> None:
    for body in ({"order": 17, "note": "ä"}, [1, 2]):
        sent = client.get_message("orders", client.publish("orders", body).message_id)
        assert sent.content_type == "application/json"
        asked = json.loads(api.requests[-2].content)
        assert json.loads(asked["body"]) == body
    named = client.publish("orders", {"a": 1}, content_type="application/vnd.a+json")
    assert client.get_message("orders", named.message_id).content_type == "application/vnd.a+json"


def test_what_happens_in_a_topic_is_watched() -> None:
    world = InMemoryApi()
    api = Client("http://api.test", transport=world)
    api.create_topic("orders")
    api.create_subscription("orders", "billing", "https://example.com/hook")
    stream = FakeStream(world.fakes)
    watching = api.watch("orders", kind="delivery", state="delivered")
    world.accidents = [lambda request: None, _publishing(world, stream)]

    told = next(watching)

    assert [(event.subscription, event.state, event.attempts) for event in told.events] == [("billing", "delivered", 1)]
    assert (told.counts.published, told.counts.delivered, told.left_out) == (1, 1, 0)


def _publishing(world: InMemoryApi, stream: FakeStream) -> Accident:
    """Publish, and tell the archive of it, before a question arrives."""

    def happen(request: httpx.Request) -> None:
        world.fakes.publish("one", topic="orders")
        stream.pass_on()
        world.fakes.deliver()
        stream.pass_on()

    return happen


def test_octets_of_any_kind_are_published_as_they_are(client: Client) -> None:
    client.create_subscription("orders", "s", HOOK)
    body = bytes(range(256))
    assert client.get_message("orders", client.publish("orders", body).message_id).body == body


def test_a_list_is_followed_to_its_end(client: Client) -> None:
    for name in ("a", "b", "c"):
        client.create_topic(name)
    assert [topic.name for topic in client.list_topics(limit=2)] == ["a", "b", "c", "orders"]
    client.create_subscription("a", "one", HOOK)
    client.create_subscription("a", "two", HOOK)
    assert [each.name for each in client.list_subscriptions("a", limit=1)] == ["one", "two"]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "caf\udce9", "x" * 70_000], ids=["empty", "dot", "dots", "Latin-1", "a body"]
)
def test_a_name_that_leads_to_the_path_of_another_resource_or_to_none_is_refused(
    client: Client, api: InMemoryApi, name: str
) -> None:
    sent = len(api.requests)
    with pytest.raises(InvalidError, match="is not the name of a topic or a subscription"):
        client.delete_subscription("orders", name)
    with pytest.raises(InvalidError):
        client.get_topic(name)
    assert client.get_topic("orders").name == "orders"
    assert [each.method for each in api.requests[sent:]] == ["GET"]


@pytest.mark.parametrize("wrong", [None, 5], ids=str)
def test_a_name_or_a_key_that_is_no_text_is_named_and_nothing_is_sent(
    client: Client, api: InMemoryApi, wrong: Any
) -> None:
    sent = len(api.requests)
    with pytest.raises(TypeError, match=f"a name or an id is a text, not {wrong}"):
        client.publish(wrong, "x")
    with pytest.raises(TypeError, match="an idempotency key is a text, not 5"):
        client.publish("orders", "x", idempotency_key=cast("Any", 5))
    assert len(api.requests) == sent


@pytest.mark.parametrize("path", ["topics", "", ".example.com/topics", "@example.com/topics", ":9/topics"])
def test_a_path_that_leads_to_another_host_is_refused_before_anything_is_sent(
    client: Client, api: InMemoryApi, path: str
) -> None:
    sent = len(api.requests)
    with pytest.raises(ValueError, match="must begin with /"):
        client.request("GET", path)
    assert len(api.requests) == sent


def test_a_query_that_is_no_utf_8_is_refused(client: Client) -> None:
    with pytest.raises(InvalidError, match=r"'caf\\udce9' is not text in UTF-8"):
        client.read_history("orders", tag="caf\udce9")


def test_what_is_wrong_is_named_fault_by_fault(client: Client) -> None:
    with pytest.raises(InvalidError) as caught:
        client.create_subscription("orders", "s", "ftp://x", timeout_seconds=99)
    assert {fault.pointer for fault in caught.value.faults} >= {"#/timeout_seconds"}
    with pytest.raises(NotFoundError, match="nowhere"):
        client.get_topic("nowhere")
    client.create_subscription("orders", "s", HOOK)
    with pytest.raises(PreconditionFailedError):
        client.delete_subscription("orders", "s", if_version=7)
    with pytest.raises(ConflictError):
        client.delete_topic("orders")


@pytest.mark.parametrize(
    "accidents", [[lost], [lost, undecodable, status(502), lost], [status(429), status(503), refused]]
)
def test_a_message_is_published_once_however_many_answers_are_lost(
    client: Client, api: InMemoryApi, accidents: list[Accident]
) -> None:
    client.create_subscription("orders", "s", HOOK)
    api.accidents = list(accidents)
    before = len(api.requests)

    accepted = client.publish("orders", "x")

    assert len(api.requests) - before == len(accidents) + 1
    assert [entry.message_id for entry in api.fakes.queue.entries] == [accepted.message_id]


@pytest.mark.parametrize(("accident", "said"), [(lost, "no answer"), (refused, "refused")])
def test_repetitions_end_twenty_seconds_after_the_first_try_and_each_is_logged(
    client: Client, api: InMemoryApi, waits: Waits, caplog: pytest.LogCaptureFixture, accident: Accident, said: str
) -> None:
    api.accidents = [accident] * 10_000
    with pytest.raises(UnreachableError):
        client.publish("orders", "x")
    assert 15 <= waits.now() <= 20
    assert max(waits.waited) <= 5
    assert len(caplog.records) == len(waits.waited)
    told = f"POST /topics/orders/messages: http://127.0.0.1:8080: {said}; try 2 follows in"
    assert caplog.messages[0].startswith(told)


def test_a_client_that_was_never_answered_gives_up_a_refused_connection_within_five_seconds() -> None:
    api, waits = InMemoryApi(), Waits()
    api.accidents = [refused] * 10_000
    with pytest.raises(UnreachableError) as unreachable:
        Client(URL, transport=api, sleep=waits, clock=waits.now).create_topic("orders")
    assert unreachable.value.refused
    assert waits.now() <= 5


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8080",
        "localhost",
        "ftp://example.com",
        "http://",
        "http://[",
        "http://a b",
        "http://a:99999",
        "http://a/?b=c",
        "http://a..b",
        "https://.execute-api.eu-west-1.amazonaws.com",
        f"http://{'a' * 64}.example",
        "http://999.1.1.1",
        "http://xn--zz",
        "",
    ],
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_url_that_is_none_is_refused_when_the_client_is_made(
    kind: type[Client] | type[AsyncClient], url: str
) -> None:
    with pytest.raises(ValueError, match=r"for example http://127\.0\.0\.1:8080"):
        kind(url)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("url", ["https://me:hunter2@a.test", "http://hunter2@a.test/", "me:hunter2@a.test"])
def test_a_url_with_a_password_is_refused_without_quoting_it(kind: type[Client] | type[AsyncClient], url: str) -> None:
    with pytest.raises(ValueError, match="user name, a password") as refused:
        kind(url)
    assert "hunter2" not in str(refused.value)


def test_the_environment_names_the_api_where_a_program_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAGCAST_URL", "http://127.0.0.1:9999/")
    assert repr(Client()) == "Client('http://127.0.0.1:9999')"


def test_tags_that_are_one_string_are_refused_before_anything_is_sent(client: Client, api: InMemoryApi) -> None:
    before = len(api.requests)
    with pytest.raises(TypeError, match=r"\['paid'\]"):
        client.publish("orders", "x", tags="paid")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"\['paid'\]"):
        NewMessage("x", tags="paid")  # type: ignore[arg-type]
    assert len(api.requests) == before


def test_the_values_of_a_refused_request_are_in_no_traceback(client: Client) -> None:
    """By default pytest prints the arguments of the function that raised."""
    with pytest.raises(NotFoundError) as refused:
        client.rotate_secret("orders", "absent", secret=SECRET)
    assert SECRET not in repr(refused.traceback[-1].locals)


def test_no_tag_of_an_iterator_is_lost(client: Client, api: InMemoryApi) -> None:
    client.publish("orders", "x", tags=map(str, (1, 2)))  # type: ignore[arg-type]
    client.publish_batch("orders", [NewMessage("x", tags=map(str, (1, 2)))])  # type: ignore[arg-type]
    single, batch = (json.loads(request.content) for request in api.requests[-2:])
    assert single["tags"] == batch["messages"][0]["tags"] == ["1", "2"]


@pytest.mark.parametrize("kind", [set, frozenset])
def test_a_set_of_tags_is_the_same_request_in_every_process(
    client: Client, api: InMemoryApi, kind: type[set[str] | frozenset[str]]
) -> None:
    tags = kind(f"tag-{number}" for number in range(10))
    client.publish("orders", "x", tags=tags, idempotency_key="k")
    assert json.loads(api.requests[-1].content)["tags"] == sorted(tags)
    assert NewMessage("x", tags=tags).as_json()["tags"] == sorted(tags)  # type: ignore[arg-type]


def test_waits_are_drawn_from_windows_that_double_and_respect_retry_after(
    client: Client, api: InMemoryApi, waits: Waits
) -> None:
    api.accidents = [status(503), status(503), status(429, retry_after="7")]
    client.publish("orders", "x")
    assert waits.waited[0] <= 0.2
    assert waits.waited[1] <= 0.4
    assert waits.waited[2] >= 7.0


def test_what_may_not_happen_twice_is_not_sent_twice(client: Client, api: InMemoryApi) -> None:
    client.create_subscription("orders", "s", HOOK, retry={"strategy": "EXPONENTIAL_DECAY_RETRY"})
    client.pause("orders", "s")
    for body in "xy":
        client.publish("orders", body)
    api.fakes.deliver()
    api.accidents = [lost]
    with pytest.raises(UnreachableError):
        client.skip("orders", "s", "once")
    assert len(list(client.list_backlog("orders", "s"))) == 1
    api.accidents = [status(429)]
    assert client.skip("orders", "s", "turned away before anything was done").backlog == 0


def test_a_removal_whose_answer_was_lost_is_done(client: Client, api: InMemoryApi) -> None:
    api.accidents = [lost]
    client.delete_topic("orders")
    with pytest.raises(NotFoundError):
        client.delete_topic("orders")


def test_without_retries_the_first_fault_is_raised(api: InMemoryApi) -> None:
    client = Client(URL, transport=api, retries=NEVER, sleep=lambda seconds: pytest.fail("waited"))
    api.accidents = [refused]
    with pytest.raises(UnreachableError) as unreachable:
        client.health()
    assert unreachable.value.refused
    for code, kind in ((429, ThrottledError), (500, ServerError)):
        api.accidents = [status(code)]
        with pytest.raises(kind, match="busy"):
            client.health()
    assert client.health().status == "ok"


def answering(content: str) -> Accident:
    return lambda request: httpx.Response(200, content=content)


def test_an_answer_of_another_shape_is_an_error_of_the_clients_own(api: InMemoryApi) -> None:
    client = Client(URL, transport=api, retries=NEVER)
    for content in ('{"status": 1}', "{", "[]"):
        api.accidents = [answering(content)]
        with pytest.raises(UnexpectedAnswerError):
            client.health()
    for content in ("<html>Log in", '{"hello": "world"}'):
        api.accidents = [answering(content)]
        with pytest.raises(UnexpectedAnswerError):
            client.delete_topic("orders")
    api.accidents = [answering('{"hello": "world"}')]
    with pytest.raises(
        UnexpectedAnswerError, match="the API's answer cannot be read as Accepted: 'message_id' is miss"
    ):
        client.publish("orders", "x")
    api.accidents = [answering(""), answering("[]"), answering('{"results": "all"}'), answering("")]
    for _ in range(3):
        with pytest.raises(UnexpectedAnswerError, match="has no list 'results'"):
            client.publish_batch("orders", [NewMessage("x")])
    with pytest.raises(UnexpectedAnswerError, match="has no list 'topics'"):
        list(client.list_topics())


def test_a_batch_splits_itself_by_the_apis_limits(client: Client, api: InMemoryApi) -> None:
    client.create_subscription("orders", "s", HOOK)
    before = len(api.requests)
    results = client.publish_batch("orders", (NewMessage(str(number)) for number in range(250)))
    assert len(api.requests) - before == 3
    sent = [result.message_id for result in results if isinstance(result, Accepted)]
    assert sent == sorted(sent)
    assert sorted(each for entry in api.fakes.queue.entries for each in (entry.message_id, *entry.others)) == sent
    assert len(set(sent)) == 250
    by_key = [client.publish_batch("orders", [NewMessage("x")] * 250, idempotency_key="k" * 128) for _ in range(2)]
    assert by_key[0] == by_key[1]

    client.update_topic("orders", max_message_bytes=262_144)
    before = len(api.requests)
    wide = client.publish_batch("orders", [NewMessage("ä" * 131_000)] * 20)
    requests = api.requests[before:]
    assert len(requests) > 1
    assert all(len(request.content) <= BATCH_BYTES_MAX for request in requests)
    assert all(isinstance(result, Accepted) for result in wide)


def test_a_batch_tells_of_each_message_and_repeats_none(client: Client, api: InMemoryApi) -> None:
    client.create_subscription("orders", "s", HOOK)
    api.accidents = [lost, lost]
    good, bad = client.publish_batch("orders", [NewMessage("x"), NewMessage("x", tags=["\x00"])])
    assert isinstance(good, Accepted)
    assert isinstance(bad, Refused)
    assert bad.error["status"] == 422
    assert len(api.fakes.queue.entries) == 1


def test_an_item_of_another_type_is_named_and_nothing_is_sent(client: Client, api: InMemoryApi) -> None:
    before = len(api.requests)
    with pytest.raises(TypeError, match="item 1 of the batch must be of type NewMessage, not 'x'"):
        client.publish_batch("orders", [NewMessage("x"), "x"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="item 0 of the batch must be of type ArchivedMessage, not NewMessage"):
        client.replay("orders", "s", [NewMessage("x")])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="item 0 of the batch must be of type Mapping, not 'x'"):
        client.create_subscriptions("orders", ["x"])  # type: ignore[list-item]
    assert len(api.requests) == before


def test_an_interrupted_batch_says_how_far_it_came(client: Client, api: InMemoryApi, waits: Waits) -> None:
    api.accidents = [lambda request: None, *[lost] * 10_000]
    with pytest.raises(BatchInterruptedError) as caught:
        client.publish_batch("orders", [NewMessage("x")] * 150)
    assert (caught.value.rest, len(caught.value.results)) == (100, 100)
    assert isinstance(caught.value.__cause__, UnreachableError)


def test_any_number_of_subscriptions_is_put_in_parts_and_each_has_its_result(client: Client, api: InMemoryApi) -> None:
    wanted: list[NamedSubscription] = [{"name": f"s{number}", "endpoint": HOOK} for number in range(150)]
    results = client.create_subscriptions("orders", [*wanted, {"name": "s", "endpoint": "ftp://example.com/"}])
    assert [each.name for each in results[:150] if isinstance(each, Subscription)] == [each["name"] for each in wanted]
    assert isinstance(results[150], Refused)
    assert len(list(client.list_subscriptions("orders"))) == 150

    api.accidents = [lost]
    repeated = client.create_subscriptions("orders", wanted[:1], replace=True)
    assert [each.version for each in repeated if isinstance(each, Subscription)] == [3]
    [refused_again] = client.create_subscriptions("orders", wanted[:1])
    assert isinstance(refused_again, Refused)
    assert refused_again.error["status"] == 412


@pytest.mark.parametrize("accident", [status(429), refused], ids=["429", "refused"])
def test_a_deletion_that_did_nothing_before_says_that_nothing_is_there(
    client: Client, api: InMemoryApi, accident: Accident
) -> None:
    list(client.list_topics())
    api.accidents = [accident]
    with pytest.raises(NotFoundError):
        client.delete_topic("absent")


def test_no_part_of_a_batch_of_subscriptions_is_too_large() -> None:
    def sized(length: int) -> NamedSubscription:
        return {"name": "s", "endpoint": {"protocol": "lambda", "function": "x" * length}}

    for over in range(-60, 3):
        empty = len(json.dumps({"subscriptions": [sized(0)] * 2, "replace": False}))
        items = [sized(1_000_000), sized(BATCH_BYTES_MAX - 1_000_000 - empty + over)]
        sizes = [len(json.dumps({"subscriptions": part, "replace": False})) for _, part in parts(items)]
        assert max(sizes) <= BATCH_BYTES_MAX


@pytest.mark.parametrize(
    "wanted",
    [
        Filter.sql(f"a = '{chr(34) * 16_000}'"),
        Filter.pattern({"a": [str(number) for number in range(300)]}),
    ],
    ids=["an answer full of quotes", "values"],
)
def test_a_hundred_of_the_largest_filters_are_created_in_as_many_parts_as_the_api_needs(
    client: Client, wanted: AnyFilter
) -> None:
    several: list[NamedSubscription] = [{"name": f"s{n}", "endpoint": HOOK, "filter": wanted} for n in range(100)]
    assert all(isinstance(each, Subscription) for each in client.create_subscriptions("orders", several))


def test_of_two_subscriptions_with_one_name_none_replaces_the_other_in_whatever_part_it_is(
    client: Client, api: InMemoryApi
) -> None:
    wanted: list[NamedSubscription] = [{"name": f"s{number}", "endpoint": HOOK} for number in range(150)]
    with pytest.raises(ValueError, match="the name 's0' is given twice"):
        client.create_subscriptions("orders", [*wanted, {"name": "s0", "endpoint": HOOK}])
    assert list(client.list_subscriptions("orders")) == []


def test_names_travel_as_they_are_and_are_never_part_of_the_path(client: Client, api: InMemoryApi) -> None:
    with pytest.raises((InvalidError, NotFoundError)):
        client.get_topic("../health")
    assert api.requests[-1].url.raw_path == b"/topics/..%2Fhealth"


@pytest.mark.parametrize(
    ("timeout", "read_s"), [(5.0, (5.0, 30.0, 30.0)), (60.0, (60.0, 60.0, 60.0)), (None, [None] * 3)]
)
def test_a_request_for_which_the_api_waits_is_not_given_up_before_its_answer(
    api: InMemoryApi, timeout: float | None, read_s: Sequence[float | None]
) -> None:
    client = Client(URL, transport=api, timeout=httpx.Timeout(timeout, connect=1.0))
    client.create_topic("orders")
    with pytest.raises(NotFoundError):
        client.pull("orders", "absent", wait_seconds=20)
    client.request("GET", "/topics/orders/tail", query={"wait_seconds": 20, "max_events": 0})
    timeouts = [request.extensions["timeout"] for request in api.requests]
    assert [each["read"] for each in timeouts] == [*read_s]
    assert {each["connect"] for each in timeouts} == {1.0}


async def test_the_asynchronous_client_does_the_same(api: InMemoryApi) -> None:
    async with AsyncClient(URL, transport=api) as client:
        await client.create_topic("orders")
        await client.create_subscription("orders", "s", HOOK)
        api.accidents = [lost]
        accepted = await client.publish("orders", "x")
        assert [each.name async for each in client.list_subscriptions("orders")] == ["s"]
        assert [each async for each in client.list_backlog("orders", "s")] == []
        assert [each async for each in client.list_lanes()] == []
        assert (await client.get_message("orders", accepted.message_id)).body == b"x"
    assert len(api.fakes.queue.entries) == 1


@pytest.mark.parametrize("utf8", ["1", "0"], ids=["utf-8", "another encoding"])
def test_the_built_modules_are_those_that_their_sources_give(tmp_path: Path, utf8: str) -> None:
    package = Path(__file__).parents[2] / "clients/python/tagcast_client"
    shutil.copytree(package / "_async", tmp_path / "_async")
    environment = {**os.environ, "PYTHONUTF8": utf8, "LC_ALL": "C"}
    build = "import hatch_build, pathlib, sys; hatch_build.write_all(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], env=environment, cwd=package.parent, check=True)
    built = [path.relative_to(tmp_path) for path in sorted(tmp_path.rglob("*.py"))]
    if [name for name in built if (tmp_path / name).read_text() != (package / name).read_text()]:
        pytest.fail("tagcast_client is older than its sources. Build it: make install", pytrace=False)


def kinds_of(hint: object) -> Iterator[type]:
    """Yield the classes of the package that an annotation names, and those of their fields."""
    for each in get_args(hint):
        yield from kinds_of(each)
    if isinstance(hint, type) and hint.__module__.startswith("tagcast_client"):
        yield hint
        if is_dataclass(hint) or is_typeddict(hint):
            for inner in get_type_hints(hint).values():
                yield from kinds_of(inner)


def methods_of(kind: type) -> dict[str, Callable[..., object]]:
    return {name: value for name, value in inspect.getmembers(kind, callable) if not name.startswith("_")}


def test_what_methods_take_and_return_is_importable_from_the_package_and_nothing_internal_is_among_it() -> None:
    methods = [*methods_of(Client).values(), *methods_of(AsyncClient).values(), Client.__init__, AsyncClient.__init__]
    more = [Receiver.verify_batch, Receiver.__init__, Consumer.__init__, Consumer.subscribe, Deduplicator.__init__]
    named = {
        kind for method in (*methods, *more) for hint in get_type_hints(method).values() for kind in kinds_of(hint)
    }
    assert len(named) > 50
    assert {kind.__name__ for kind in named} <= set(vars(tagcast_client))
    assert not hasattr(tagcast_client, "Operation"), "it is how the client works"


def test_a_history_is_read_page_by_page_with_how_far_the_archive_has_come(client: Client, api: InMemoryApi) -> None:
    client.create_subscription("orders", "s", HOOK)
    for body in "xyz":
        client.publish("orders", body, tags=[body], properties={"customer": "42"})
    client.publish("orders", "other")
    api.fakes.pusher.behaviours["s"] = lambda push: FAIL
    api.fakes.deliver()

    first = client.read_history("orders", property="customer=42", state="blocked", limit=2)
    rest = client.read_history("orders", property="customer=42", limit=2, cursor=first.next_cursor)

    assert [message.tags for message in (*first.messages, *rest.messages)] == [("z",), ("y",), ("x",)]
    assert (rest.next_cursor, rest.archived_until, first.messages[0].counts) == (None, None, {"blocked": 1})
    later = first.messages[0].accepted_at + timedelta(seconds=1)
    assert client.read_history("orders", tag="x", since=later).messages == ()


class Counted(Handler):
    """Serves any request, and keeps its connections."""

    protocol_version = "HTTP/1.1"
    connections: ClassVar[set[tuple[str, int]]]

    def serve(self) -> None:
        self.connections.add(self.client_address)
        self.answer(200, b'{"status": "ok"}')


def test_a_process_that_was_forked_has_connections_of_its_own() -> None:
    Counted.connections = set()
    with serving(Counted) as url, Client(url, retries=Retries(seconds=0)) as client:
        client.get_openapi()
        if (child := os.fork()) == 0:
            client.get_openapi()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        client.get_openapi()

    assert len(Counted.connections) == 2


def test_each_event_loop_has_connections_of_its_own() -> None:
    Counted.connections = set()
    with serving(Counted) as url:
        client = AsyncClient(url, retries=Retries(seconds=0))

        async def read() -> None:
            await client.get_openapi()
            await client.get_openapi()

        for _ in range(3):  # As a Lambda function that calls asyncio.run for each event.
            asyncio.run(read())
        asyncio.run(client.aclose())
        with pytest.raises(RuntimeError, match="closed"):
            asyncio.run(read())

    assert len(Counted.connections) == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [("ALL_PROXY", "socks5://127.0.0.1:9"), ("all_proxy", "socks://127.0.0.1:9/"), ("NO_PROXY", "localhost,[::1]")],
)
def test_proxy_settings_that_httpx_does_not_know_are_an_error_only_for_other_machines(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)  # It would hide NO_PROXY. `bypass_proxies` of another test sets it.
    monkeypatch.setenv(name, value)

    class Serving(Handler):
        def serve(self) -> None:
            self.answer(200, b'{"openapi": "3.1.0"}')

    with serving(Serving) as url, Client(url) as client:
        assert client.get_openapi() == {"openapi": "3.1.0"}
    for kind in (Client, AsyncClient):
        with pytest.raises(UnreachableError, match="the proxy settings of the environment") as fault:
            kind("https://tagcast.example")
        assert fault.value.refused
