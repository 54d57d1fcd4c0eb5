"""Consumers of both kinds: what they pull, what they make of a listener's answer, and how they end."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import anyio
import httpx
import pytest
from tagcast_client import (
    AcknowledgedLateError,
    AsyncClient,
    AsyncConsumer,
    Client,
    Consumer,
    ConsumerOptions,
    ConsumeStatus,
    DisagreementError,
    Filter,
    Later,
    MessageModel,
    NotFoundError,
    Pulled,
    UnreachableError,
)
from tagcast_client._async import consumer as async_consumer_module
from tagcast_client._sync import consumer as consumer_module
from tagcast_client.asyncio_tasks import async_verdict
from tagcast_client.threads import Slots, Tasks

from tests.clients.in_memory_api import Accident, status
from tests.clients.pulling_api import PullingApi
from tests.fakes.calls import Before
from tests.running_stack import wait_until

URL = "http://127.0.0.1:8080/"
OPTIONS = ConsumerOptions(member_id="one", heartbeat_seconds=0.01, wait_seconds=0)
Listener = Callable[[Sequence[Pulled]], Any]


@dataclass
class Running:
    """A consumer of either kind on a thread of its own, from its start to its shutdown."""

    api: PullingApi
    listener: Listener
    options: ConsumerOptions = OPTIONS
    expression: Any = "TagA || TagB"
    faults: list[Exception] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._started, self._stop = threading.Event(), threading.Event()
        self._failed: list[Exception] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._started.wait()
        if self._failed:
            self._thread.join()
            raise self._failed[0]
        return self

    def __exit__(self, *_: object) -> None:
        self.shut_down()
        self._thread.join()

    def shut_down(self) -> None:
        """Tell the consumer to shut down, without waiting for that."""
        self._stop.set()

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.live()
        except Exception as fault:  # noqa: BLE001 - raised where the consumer is entered
            self._failed.append(fault)
        self._started.set()

    def live(self) -> None:
        with Client(URL, transport=self.api, sleep=lambda seconds: None) as client:
            consumer = Consumer(client, "workers", self.options, self.faults.append)
            consumer.subscribe("TopicTest", self.expression)
            consumer.register_message_listener(self.listener)
            with consumer:
                self._started.set()
                self._stop.wait()


class AsyncRunning(Running):
    def live(self) -> None:
        asyncio.run(self.live_in_a_loop())

    async def live_in_a_loop(self) -> None:
        async def pause(seconds: float) -> None:
            await asyncio.sleep(0)

        async def listener(messages: Sequence[Pulled]) -> Any:
            return await asyncio.to_thread(self.listener, messages)

        async with AsyncClient(URL, transport=self.api, sleep=pause) as client:
            consumer = AsyncConsumer(client, "workers", self.options, self.faults.append)
            consumer.subscribe("TopicTest", self.expression)
            consumer.register_message_listener(listener)
            async with consumer:
                self._started.set()
                await asyncio.to_thread(self._stop.wait)


@pytest.fixture(params=[Running, AsyncRunning], ids=["threads", "asyncio"])
def running(request: pytest.FixtureRequest) -> type[Running]:
    found: type[Running] = request.param
    return found


@pytest.fixture
def api() -> PullingApi:
    api = PullingApi()
    api.client.create_topic("TopicTest", ordering="key")
    return api


AnyConsumer = TypeVar("AnyConsumer", Consumer, AsyncConsumer)


def prepared(consumer: AnyConsumer, listener: Any) -> AnyConsumer:
    """Give *consumer* its subscription and its listener."""
    consumer.subscribe("TopicTest", "TagA || TagB")
    consumer.register_message_listener(listener)
    return consumer


def ignore(messages: Sequence[Pulled]) -> None:
    """A listener that is content with everything."""


async def ignore_later(messages: Sequence[Pulled]) -> None:
    """The same for an asynchronous consumer."""


def made(api: PullingApi, *bodies: str) -> None:
    """Make the group that the consumers are going to find, and publish to it."""
    wanted = Filter.tag_expression("TagA || TagB")
    api.client.create_subscription("TopicTest", "workers", {"protocol": "pull"}, filter=wanted)
    api.put("TopicTest", *bodies)


@dataclass
class Gate:
    """A listener that works on its batches until it is let go, and answers as it is told."""

    answer: object = None
    open: threading.Event = field(default_factory=threading.Event)
    batches: list[list[str]] = field(default_factory=list)

    def __call__(self, messages: Sequence[Pulled]) -> object:
        self.batches.append([message.text() for message in messages])
        self.open.wait()
        return self.answer


def bodies(batches: Sequence[Sequence[str]]) -> list[str]:
    return [body for batch in batches for body in batch]


def test_no_more_is_pulled_than_can_be_worked_on(api: PullingApi, running: type[Running]) -> None:
    listener = Gate()
    made(api, *map(str, range(100)))
    with running(api, listener, replace(OPTIONS, consume_thread_max=2, consume_message_batch_max_size=5)):
        assert wait_until(lambda: len(listener.batches) == 2)
        pulls = len(api.asked_for("pull"))
        assert sorted(len(batch) for batch in listener.batches) == [5, 5]
        assert api.in_flight() == 10
        assert len(api.asked_for("pull")) == pulls
        listener.open.set()
        assert wait_until(lambda: len(api.done()) == 100)
    assert max(pull["max_messages"] for pull in api.asked_for("pull")) <= 10


def test_behind_a_pull_that_brought_messages_all_free_slots_are_asked_for(
    api: PullingApi, running: type[Running]
) -> None:
    listener = Gate()
    made(api, "a")
    options = replace(OPTIONS, consume_thread_max=4, consume_message_batch_max_size=1)
    with running(api, listener, options):
        wait_until(lambda: len(api.asked_for("pull")) >= 3)
        listener.open.set()
    assert [pull["max_messages"] for pull in api.asked_for("pull")][:3] == [1, 3, 1]


@pytest.mark.parametrize("slots", [1, 2, 20])
def test_a_topic_without_messages_leaves_slots_to_the_others(
    api: PullingApi, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = list[int]()

    def pulled(client: Client, topic: str, *arguments: Any, max_messages: int, **options: Any) -> None:
        idle.extend([max_messages] * (topic == "Idle"))

    Before(monkeypatch).each(Client, "pull", pulled)
    api.client.create_topic("Idle")
    consumer = Consumer(api.client, "workers", replace(OPTIONS, consume_thread_max=slots))
    for topic in ("Idle", "TopicTest"):
        consumer.subscribe(topic, "TagA")
    consumer.register_message_listener(ignore)
    with consumer:
        for body in map(str, range(10)):
            api.put("TopicTest", body)
            assert wait_until(lambda body=body: body in api.done())  # type: ignore[misc]
    assert set(idle) == {OPTIONS.messages_max(1)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"consume_thread_max": 0},
        {"consume_message_batch_max_size": 0},
        {"visibility_timeout_seconds": 9},
        {"suspend_seconds": 43_201},
        {"wait_seconds": 21},
        {"pull_interval_seconds": -1},
        {"heartbeat_seconds": 0},
        {"heartbeat_seconds": 300},
        {"prolong_seconds": -1},
        {"prolong_seconds": 60},
    ],
)
def test_an_option_with_which_a_consumer_cannot_work_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        replace(OPTIONS, **wrong)  # type: ignore[arg-type]


def test_consumers_of_one_options_object_are_two_members(api: PullingApi) -> None:
    options = ConsumerOptions(wait_seconds=0)
    consumers = [prepared(Consumer(api.client, "workers", options), ignore) for _ in range(2)]
    for consumer in consumers:
        consumer.start()
    members = {each.member_id for each in api.client.list_members("TopicTest", "workers")}
    for consumer in consumers:
        consumer.shutdown()
    assert members == {each.member_id for each in consumers}
    assert len(members) == 2


def test_a_consumer_that_was_shut_down_says_that_it_cannot_start_again(api: PullingApi) -> None:
    consumer = prepared(Consumer(api.client, "workers", OPTIONS), ignore)
    with consumer:
        pass
    with pytest.raises(RuntimeError, match="create another one"):
        consumer.start()


@dataclass
class Poisoned:
    """A listener that fails each batch with the text "c", the first *failures* times."""

    failures: int
    calls: list[str] = field(default_factory=list)

    def __call__(self, messages: Sequence[Pulled]) -> None:
        self.calls.append("".join(message.text() for message in messages))
        if "c" in self.calls[-1] and self.failures:
            self.failures -= 1
            raise ValueError("poison")


def test_a_message_that_always_fails_takes_no_other_message_of_its_batch_with_it(
    api: PullingApi, running: type[Running]
) -> None:
    api.client.create_subscription("TopicTest", "workers", {"protocol": "pull"}, retry={"max_retries": 3})
    api.put("TopicTest", *"abcde")
    listener = Poisoned(failures=10)
    with running(api, listener, replace(OPTIONS, suspend_seconds=0), expression=None):
        assert wait_until(lambda: api.done() == [*"abde"] and len(listener.calls) == 8)
    assert listener.calls[0] == "abcde"
    assert sorted(listener.calls[1:]) == [*"abcccde"]


def test_in_an_ordered_group_no_message_overtakes_a_failed_one(api: PullingApi, running: type[Running]) -> None:
    api.client.create_subscription("TopicTest", "workers", {"protocol": "pull"}, ordered=True)
    api.put("TopicTest", *"abcde")
    listener = Poisoned(failures=3)
    with running(api, listener, replace(OPTIONS, suspend_seconds=0, ordered=True), expression=None):
        assert wait_until(lambda: api.done() == [*"abcde"])
    assert listener.calls == ["abcde", "a", "b", "c", "c", "c", "d", "e"]


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (SystemExit("enough"), "the listener exited with enough; call shutdown instead"),
        # E.g. of an event loop that the listener runs.
        (asyncio.CancelledError("too slow"), "the listener raised CancelledError('too slow')"),
    ],
)
def test_a_listener_that_exits_or_raises_no_exception_gets_its_batch_again(
    api: PullingApi, raised: BaseException, told: str
) -> None:
    calls = list[str]()

    def listener(messages: Sequence[Pulled]) -> None:
        calls.extend(message.text() for message in messages)
        if len(calls) == 1:
            raise raised

    made(api, "a")
    with Running(api, listener, replace(OPTIONS, suspend_seconds=0, consume_thread_max=1)) as consumer:
        assert wait_until(lambda: api.done() == ["a"])
    assert calls == ["a", "a"]
    assert [str(fault) for fault in consumer.faults] == [told]


def test_a_listener_that_is_not_async_is_named() -> None:
    listener: Any = ignore
    with pytest.raises(TypeError, match="a listener of an AsyncConsumer must be async, but it returned None"):
        asyncio.run(async_verdict(listener, ()))


class Exiting(list[Exception]):
    """Faults of a consumer, whose *on_error* exits at each."""

    def append(self, fault: Exception) -> None:
        sys.exit(3)


def test_a_consumer_goes_on_although_its_on_error_exits(api: PullingApi, caplog: pytest.LogCaptureFixture) -> None:
    made(api)
    api.accidents = [lambda request: None, status(400)]  # Of the first heartbeat and of the first pull.
    options = replace(OPTIONS, heartbeat_seconds=30)
    with Running(api, ignore, options, faults=Exiting()):
        assert wait_until(lambda: not api.accidents)
        api.put("TopicTest", "a")
        assert wait_until(lambda: api.done() == ["a"], 10)
    assert "on_error exited with 3; call shutdown instead" in caplog.text


def refuse_a_thread(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """Refuse the first thread for the work of this name; the result holds the error once it was raised."""
    start, refused = Tasks.start, list[str]()

    def starting(tasks: Tasks, work: Callable[..., None], *arguments: Any) -> None:
        if work.__name__ == name and not refused:
            refused.append("can't start new thread")
            raise RuntimeError(refused[0])
        start(tasks, work, *arguments)

    monkeypatch.setattr(Tasks, "start", starting)
    return refused


def test_where_no_thread_can_be_started_the_messages_are_left_and_pulls_go_on(
    api: PullingApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = refuse_a_thread(monkeypatch, "_consume")
    made(api, "a")
    with Running(api, ignore, replace(OPTIONS, consume_thread_max=1)) as consumer:
        assert wait_until(lambda: bool(consumer.faults))
        api.put("TopicTest", "b")
        assert wait_until(lambda: api.done() == ["b"])
    assert [str(fault) for fault in consumer.faults] == refused


def test_where_no_thread_can_be_started_the_next_extension_follows(
    api: PullingApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, listener = refuse_a_thread(monkeypatch, "_extend"), Gate()
    made(api, "a")
    with Running(api, listener, replace(OPTIONS, prolong_seconds=0.02)) as consumer:
        assert wait_until(lambda: len(api.asked_for("extend")) > 1)
        listener.open.set()
    assert [str(fault) for fault in consumer.faults] == refused


class LateExtension(httpx.BaseTransport):
    """The API at which the first extension arrives after the first nack."""

    def __init__(self, api: PullingApi) -> None:
        self.api, self.extending, self.given_back = api, threading.Event(), threading.Event()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/extend"):
            self.extending.set()
            self.given_back.wait()
        answer = self.api.handle_request(request)
        if request.url.path.endswith("/nack"):
            self.given_back.set()
        return answer


def test_an_extension_after_a_nack_does_not_hide_the_messages(api: PullingApi) -> None:
    late, calls = LateExtension(api), list[str]()

    def listener(messages: Sequence[Pulled]) -> Later | None:
        calls.extend(message.text() for message in messages)
        if len(calls) > 1:
            return None
        late.extending.wait()
        return Later(1)

    made(api, "a")
    with Client(URL, transport=late) as client:
        consumer = prepared(Consumer(client, "workers", replace(OPTIONS, prolong_seconds=0.02)), listener)
        with consumer:
            assert wait_until(lambda: len(api.asked_for("nack")) == 2)
            api.pass_by(1)
            assert wait_until(lambda: api.done() == ["a"])
    assert calls == ["a", "a"]


def test_who_is_told_of_a_fault_may_shut_the_consumer_down(api: PullingApi, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("no network")

    monkeypatch.setattr(Client, "pull", lost)
    consumer = prepared(Consumer(api.client, "workers", OPTIONS, lambda fault: consumer.shutdown()), ignore)
    consumer.start()
    assert wait_until(lambda: api.client.list_members("TopicTest", "workers") == ())


def test_a_consumer_that_does_not_start_leaves_the_topics_that_it_has_joined(api: PullingApi) -> None:
    consumer = prepared(Consumer(api.client, "workers", OPTIONS), ignore)
    consumer.subscribe("absent", "TagA")
    with pytest.raises(NotFoundError):
        consumer.start()
    assert list(api.client.list_members("TopicTest", "workers")) == []
    api.client.create_topic("absent")
    with consumer:
        assert len(list(api.client.list_members("TopicTest", "workers"))) == 1


def test_after_a_pull_that_brought_nothing_it_may_rest(api: PullingApi, running: type[Running]) -> None:
    made(api, "a")
    with running(api, ignore, replace(OPTIONS, pull_interval_seconds=3_600.0)):
        assert wait_until(lambda: api.done() == ["a"])
        assert wait_until(lambda: len(api.asked_for("pull")) == 2)
    assert len(api.asked_for("pull")) == 2


def test_a_shutdown_ends_and_acknowledges_what_is_under_way_and_leaves(api: PullingApi, running: type[Running]) -> None:
    listener = Gate()
    made(api, "a", "b")
    with running(api, listener) as consumer:
        assert wait_until(lambda: bodies(listener.batches) == ["a", "b"])
        consumer.shut_down()
        assert not consumer.has_ended
        api.put("TopicTest", "c")
        listener.open.set()
    assert api.done()[:2] == ["a", "b"]
    assert api.in_flight() == 0
    assert api.client.list_members("TopicTest", "workers") == ()


def test_a_shutdown_asks_a_service_that_does_not_answer_once_for_all_topics(
    api: PullingApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, told = list[str](), list[Exception]()

    def lost(client: Client, topic: str, *rest: Any) -> None:
        asked.append(topic)
        raise UnreachableError("http://127.0.0.1:8080", "connection refused", refused=True)

    api.client.create_topic("second")
    consumer = prepared(Consumer(api.client, "workers", OPTIONS, told.append), ignore)
    consumer.subscribe("second", "TagA")
    consumer.start()
    monkeypatch.setattr(Client, "leave", lost)
    consumer.shutdown()
    assert len(asked) == 1
    assert [type(each) for each in told] == [UnreachableError]


def test_an_acknowledgement_after_the_visibility_timeout_is_reported(api: PullingApi, running: type[Running]) -> None:
    batches: list[Sequence[Pulled]] = []

    def listener(messages: Sequence[Pulled]) -> None:
        batches.append(messages)
        if len(batches) == 1:
            api.pass_by(OPTIONS.visibility_timeout_seconds + 1)

    with running(api, listener) as consumer:
        api.put("TopicTest", "a")
        assert wait_until(lambda: api.done() == ["a"])
    assert [message.body for batch in batches for message in batch] == [b"a", b"a"]
    [fault] = consumer.faults
    assert isinstance(fault, AcknowledgedLateError)
    assert fault.message_ids == (api.ids["a"],)


@pytest.mark.parametrize(("answer", "delay"), [(ConsumeStatus.RECONSUME_LATER, 10), (Later(300), 300), (Later(0), 0)])
def test_later_gives_a_batch_back_for_so_long(
    api: PullingApi, running: type[Running], answer: object, delay: int
) -> None:
    answers = [answer]
    with running(api, lambda messages: answers.pop(0) if answers else None):
        api.put("TopicTest", "a")
        assert wait_until(lambda: bool(api.asked_for("nack")))
        api.pass_by(delay)
        assert wait_until(lambda: api.done() == ["a"])
    assert [each["delay_seconds"] for each in api.asked_for("nack")] == [delay]


def test_a_listener_that_raises_or_answers_nonsense_gets_its_batch_again_and_that_is_told(
    api: PullingApi, running: type[Running]
) -> None:
    def listener(messages: Sequence[Pulled]) -> object:
        if messages[0].attempt == 1:
            raise RuntimeError("no database")
        return "done" if messages[0].attempt == 2 else ConsumeStatus.CONSUME_SUCCESS

    with running(api, listener) as consumer:
        api.put("TopicTest", "a")
        for again in (1, 2):
            assert wait_until(lambda again=again: len(api.asked_for("nack")) == again)  # type: ignore[misc]
            api.pass_by(10)
        assert wait_until(lambda: api.done() == ["a"])
    assert [type(fault) for fault in consumer.faults] == [RuntimeError, TypeError]


def test_by_default_an_error_of_a_listener_is_logged_with_its_place_and_one_of_the_api_in_a_line(
    api: PullingApi, caplog: pytest.LogCaptureFixture
) -> None:
    made(api)
    api.accidents = [lambda request: None, status(403)]  # Of the first heartbeat and of the first pull.
    with prepared(Consumer(api.client, "workers", replace(OPTIONS, heartbeat_seconds=30)), Poisoned(1)):
        assert wait_until(lambda: not api.accidents)
        api.put("TopicTest", "c")
        assert wait_until(lambda: len(caplog.records) == 2, 10)
    assert [record.exc_info is not None for record in caplog.records] == [False, True]
    assert 'raise ValueError("poison")' in caplog.text


def test_what_a_listener_works_on_for_long_becomes_nobody_elses(api: PullingApi, running: type[Running]) -> None:
    listener = Gate()
    made(api, "a")
    with running(api, listener, replace(OPTIONS, prolong_seconds=0.02)):
        assert wait_until(lambda: len(api.asked_for("extend")) > 3)
        for _ in range(5):
            api.pass_by(50)
            extended = len(api.asked_for("extend"))
            assert wait_until(lambda extended=extended: len(api.asked_for("extend")) > extended + 1)  # type: ignore[misc]
        assert len(listener.batches) == 1
        listener.open.set()
        assert wait_until(lambda: api.done() == ["a"])


def test_many_batches_are_extended_in_one_request(api: PullingApi, running: type[Running]) -> None:
    listener = Gate()
    made(api)
    for number in range(4):
        api.put("TopicTest", str(number))
    options = replace(OPTIONS, prolong_seconds=0.02, consume_thread_max=4, consume_message_batch_max_size=1)
    with running(api, listener, options):
        assert wait_until(lambda: len(listener.batches) == 4)
        assert wait_until(lambda: any(len(each["receipt_handles"]) == 4 for each in api.asked_for("extend")))
        listener.open.set()
        assert wait_until(lambda: len(api.done()) == 4)


def test_a_message_that_was_pulled_almost_twelve_hours_ago_stops_no_extension_of_others(
    api: PullingApi, running: type[Running]
) -> None:
    listener = Gate()
    made(api)
    hours, seconds = 3_600, 18_000
    options = replace(
        OPTIONS, prolong_seconds=0.02, consume_message_batch_max_size=1, visibility_timeout_seconds=seconds
    )
    with running(api, listener, options) as consumer:
        for body in "ab":
            api.put("TopicTest", body)
            wait_until(lambda body=body: [body] in listener.batches)  # type: ignore[misc]
            asked = len(api.asked_for("extend"))
            api.pass_by(4 * hours)
            wait_until(lambda asked=asked: len(api.asked_for("extend")) > asked + 3)  # type: ignore[misc]
        # The first message is beyond its bound and comes again; the second is still hidden.
        api.pass_by(2 * hours)
        wait_until(lambda: listener.batches.count(["a"]) == 2)
        listener.open.set()
        assert wait_until(lambda: len(api.done()) == 2)
    assert listener.batches == [["a"], ["b"], ["a"]]
    assert any("43200 seconds after the pull" in str(fault) for fault in consumer.faults)


def test_a_shutdown_that_is_cancelled_cancels_no_listener_and_can_be_repeated(api: PullingApi) -> None:
    async def play() -> list[str]:
        done: list[str] = []
        working, may_end = asyncio.Event(), asyncio.Event()

        async def listener(messages: Sequence[Pulled]) -> None:
            working.set()
            await may_end.wait()
            done.extend(message.text() for message in messages)

        async with AsyncClient(URL, transport=api) as client:
            consumer = prepared(AsyncConsumer(client, "workers", OPTIONS), listener)
            await consumer.start()
            await asyncio.to_thread(api.put, "TopicTest", "a")
            await working.wait()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.shutdown(), 0.5)
            may_end.set()
            await consumer.shutdown()
            assert await client.list_members("TopicTest", "workers") == ()
        return done

    assert asyncio.run(play()) == api.done() == ["a"]


def test_of_an_ordered_group_one_batch_is_worked_on_at_a_time_in_each_pull(
    api: PullingApi, running: type[Running]
) -> None:
    listener = Gate()
    listener.open.set()
    options = replace(OPTIONS, ordered=True, consume_message_batch_max_size=2)
    with running(api, listener, options):
        api.put("TopicTest", *"abcde", order="1")
        assert wait_until(lambda: len(api.done()) == 5)
    assert bodies(listener.batches) == list("abcde")
    assert api.client.get_subscription("TopicTest", "workers").ordered is True


def test_a_consumer_that_makes_its_group_begins_where_it_said(api: PullingApi, running: type[Running]) -> None:
    listener = Gate()
    listener.open.set()
    api.client.update_topic("TopicTest", keep="life")
    api.put("TopicTest", *"ab")
    with running(api, listener, replace(OPTIONS, start_from="earliest")):
        with api.lock:
            api.fakes.run_workflows(api.fakes.clock.instant + 120_000)
        assert wait_until(lambda: api.done() == ["a", "b"])
    assert api.client.get_subscription("TopicTest", "workers").start_from == "earliest"
    entry = api.client.get_message("TopicTest", api.ids["a"]).subscribers["workers"]
    assert entry.added_at is not None


def test_what_an_orderly_listener_gives_back_holds_up_its_order_and_no_other(
    api: PullingApi, running: type[Running]
) -> None:
    done: list[str] = []

    def listener(messages: Sequence[Pulled]) -> object:
        if messages[0].body == b"a" and messages[0].attempt == 1:
            return Later(30)
        done.extend(message.text() for message in messages)
        return None

    options = replace(OPTIONS, ordered=True, consume_message_batch_max_size=1)
    with running(api, listener, options):
        api.put("TopicTest", *"abc", order="1")
        api.put("TopicTest", *"xyz", order="2")
        assert wait_until(lambda: len(done) == 3)
        assert done == list("xyz")
        api.pass_by(30)
        assert wait_until(lambda: len(api.done()) == 6)
    assert done == list("xyzabc")


def test_who_disagrees_does_not_start_and_is_told_what_differs(api: PullingApi, running: type[Running]) -> None:
    api.client.heartbeat("TopicTest", "workers", "other", filter=Filter.tag_expression("TagA"))
    with pytest.raises(DisagreementError) as refused, running(api, Gate()):
        pass
    assert refused.value.difference == ("expression: only you have 'TagB'",)
    assert str(refused.value).endswith("; expression: only you have 'TagB'")  # So a log says it, too.
    assert [each.member_id for each in api.client.list_members("TopicTest", "workers")] == ["other"]


def test_a_group_that_changes_is_told_of_and_the_consumer_lives_on(api: PullingApi, running: type[Running]) -> None:
    with running(api, Gate()) as consumer:
        new = Filter.sql("price > 5")
        api.client.update_subscription("TopicTest", "workers", filter=new, if_version=1)
        assert wait_until(lambda: bool(consumer.faults))
        assert isinstance(consumer.faults[0], DisagreementError)
        old = Filter.tag_expression("TagA || TagB")
        api.client.update_subscription("TopicTest", "workers", filter=old, if_version=2)
        assert wait_until(lambda: all(each.agrees for each in api.client.list_members("TopicTest", "workers")))


class Refusing(list[Exception]):
    """Faults of a consumer, whose *on_error* fails with each."""

    def append(self, fault: Exception) -> None:
        super().append(fault)
        raise ValueError("on_error")


@pytest.mark.parametrize(
    ("accident", "faults"),
    [(status(403), list), (lambda request: OSError("the token's file is being replaced"), Refusing)],
    ids=["403", "no token"],
)
def test_whatever_fails_is_told_and_a_consumer_goes_on(
    api: PullingApi, running: type[Running], accident: Accident, faults: type[list[Exception]]
) -> None:
    with running(api, ignore, faults=faults()) as consumer:
        api.accidents.append(accident)
        assert wait_until(lambda: bool(consumer.faults))
        api.put("TopicTest", "a")
        assert wait_until(lambda: api.done() == ["a"])


def test_under_broadcasting_it_pulls_from_the_subscription_of_its_own(api: PullingApi, running: type[Running]) -> None:
    listener = Gate()
    listener.open.set()
    with running(api, listener, replace(OPTIONS, message_model=MessageModel.BROADCASTING), None):
        api.put("TopicTest", "a")
        assert wait_until(lambda: api.done() == ["a"])
        [own] = api.client.list_subscriptions("TopicTest")
    assert own.name.startswith("workers-")


def test_a_consumer_without_a_listener_or_a_subscription_does_not_start() -> None:
    consumer = Consumer(Client(URL), "workers")
    with pytest.raises(ValueError, match="needs a subscription and a listener"):
        consumer.start()


class Waiting(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """The API at which every pull waits for as long as the test runs, and any request once *is_silent* is true."""

    def __init__(self, api: PullingApi) -> None:
        self.api, self.pulling, self.over = api, threading.Event(), threading.Event()
        self.is_silent = False
        self.unanswered: list[str] = []

    def _waits(self, request: httpx.Request) -> bool:
        if request.url.path.endswith("/pull"):
            self.pulling.set()
            return True
        if self.is_silent:
            self.unanswered.append(request.method)
        return self.is_silent

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self._waits(request):
            self.over.wait(10)
            raise httpx.ReadError("closed")
        return self.api.handle_request(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._waits(request):
            await asyncio.Event().wait()
        return await self.api.handle_async_request(request)


@pytest.mark.parametrize("is_asynchronous", [False, True])
def test_a_consumer_of_a_service_that_does_not_answer_any_more_is_closed_soon(
    api: PullingApi, monkeypatch: pytest.MonkeyPatch, is_asynchronous: bool
) -> None:
    made(api)
    waiting = Waiting(api)
    for module in (consumer_module, async_consumer_module):
        monkeypatch.setattr(module, "ENDS_WITHIN_S", 0.3)

    def fall_silent() -> float:
        waiting.is_silent = True
        assert wait_until(lambda: waiting.unanswered == ["PUT"])  # A heartbeat is under way.
        return time.monotonic()

    def play() -> float:
        with Client(URL, transport=waiting) as client:
            consumer = prepared(Consumer(client, "workers", OPTIONS), ignore)
            consumer.start()
            began = fall_silent()
            consumer.shutdown()
            return time.monotonic() - began

    async def play_asynchronously() -> float:
        async with AsyncClient(URL, transport=waiting) as client:
            consumer = prepared(AsyncConsumer(client, "workers", OPTIONS), ignore_later)
            await consumer.start()
            began = await asyncio.to_thread(fall_silent)
            await consumer.shutdown()
            return time.monotonic() - began

    took_s = asyncio.run(asyncio.wait_for(play_asynchronously(), 20)) if is_asynchronous else play()
    waiting.over.set()
    assert took_s < 2
    assert waiting.unanswered == ["PUT", "DELETE"]


class Interrupted(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Hands the first heartbeat on, and then interrupts its caller, as Ctrl-C or a cancellation does."""

    def __init__(self, api: PullingApi) -> None:
        self.api, self.methods = api, list[str]()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.methods.append(request.method)
        answer = self.api.handle_request(request)
        if self.methods == ["PUT"]:
            raise KeyboardInterrupt
        return answer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.methods.append(request.method)
        answer = await self.api.handle_async_request(request)
        if self.methods == ["PUT"]:
            raise asyncio.CancelledError
        return answer


@pytest.mark.parametrize("is_asynchronous", [False, True])
def test_a_consumer_that_is_interrupted_in_its_first_heartbeat_leaves(api: PullingApi, is_asynchronous: bool) -> None:
    made(api)
    interrupted = Interrupted(api)

    def play() -> None:
        with Client(URL, transport=interrupted) as client, pytest.raises(KeyboardInterrupt):
            prepared(Consumer(client, "workers", OPTIONS), ignore).start()

    async def play_asynchronously() -> None:
        async with AsyncClient(URL, transport=interrupted) as client:
            with pytest.raises(asyncio.CancelledError):
                await prepared(AsyncConsumer(client, "workers", OPTIONS), ignore_later).start()

    asyncio.run(play_asynchronously()) if is_asynchronous else play()
    assert interrupted.methods == ["PUT", "DELETE"]
    assert api.client.list_members("TopicTest", "workers") == ()


@dataclass
class Cleaning:
    """An asynchronous listener that works without end, and needs a while to clean up."""

    state: str = "idle"

    async def __call__(self, messages: Sequence[Pulled]) -> None:
        self.state = "works"
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            self.state = "clean"


def test_a_context_whose_shutdown_is_cancelled_ends_its_listeners_and_leaves(api: PullingApi) -> None:
    made(api, "a")
    listener = Cleaning()

    async def consume(consumer: AsyncConsumer) -> None:
        async with consumer:
            while listener.state == "idle":
                await asyncio.sleep(0.01)

    async def play() -> None:
        async with AsyncClient(URL, transport=api) as client:
            consumer = prepared(AsyncConsumer(client, "workers", OPTIONS), listener)
            consuming = asyncio.create_task(consume(consumer))
            await consumer.wait()
            consuming.cancel()
            await asyncio.wait({consuming})
        assert consuming.cancelled()
        assert listener.state == "clean"
        assert api.client.list_members("TopicTest", "workers") == ()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(play())
    assert api.in_flight() == 1


def test_a_context_in_a_cancelled_scope_of_anyio_leaves_no_task_behind(api: PullingApi) -> None:
    made(api, "a")
    listener = Cleaning()

    async def play() -> None:
        async with AsyncClient(URL, transport=api) as client:
            consumer = prepared(AsyncConsumer(client, "workers", OPTIONS), listener)
            with anyio.CancelScope() as scope:
                async with consumer:
                    while listener.state == "idle":
                        await asyncio.sleep(0.01)
                    scope.cancel()
        async with asyncio.timeout(10):
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0.01)

    asyncio.run(play())


def test_a_context_whose_shutdown_is_interrupted_repeats_no_pull_and_leaves(
    api: PullingApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(api)
    waiting, before, join = Waiting(api), set(threading.enumerate()), threading.Thread.join

    def interrupt(thread: threading.Thread, timeout: float | None = None) -> None:
        monkeypatch.setattr(threading.Thread, "join", join)
        raise KeyboardInterrupt

    def play(client: Client) -> None:
        with prepared(Consumer(client, "workers", OPTIONS), ignore):
            waiting.pulling.wait()
            waiting.pulling.clear()
            monkeypatch.setattr(threading.Thread, "join", interrupt)

    with Client(URL, transport=waiting, sleep=lambda seconds: None) as client:
        with pytest.raises(KeyboardInterrupt):
            play(client)
        assert client.list_members("TopicTest", "workers") == ()
        waiting.over.set()
        assert wait_until(lambda: set(threading.enumerate()) <= before)
    assert not waiting.pulling.is_set()


def test_a_consumer_whose_pull_waits_is_closed_within_a_second_and_the_pull_is_not_repeated(api: PullingApi) -> None:
    made(api)
    waiting, faults, before = Waiting(api), list[Exception](), set(threading.enumerate())
    with Client(URL, transport=waiting, sleep=lambda seconds: None) as client:
        consumer = prepared(Consumer(client, "workers", OPTIONS, faults.append), ignore)
        consumer.start()
        waiting.pulling.wait()
        began = time.monotonic()
        consumer.shutdown()
        assert time.monotonic() - began < 1
        assert client.list_members("TopicTest", "workers") == ()
        waiting.pulling.clear()
        waiting.over.set()
        assert wait_until(lambda: set(threading.enumerate()) <= before)
    assert (faults, waiting.pulling.is_set()) == ([], False)


class LateSlots(Slots):
    """Slots that a pull with messages gives back when its consumer has shut down."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.returning, self.ended = threading.Event(), threading.Event()

    def give_back(self, count: int) -> None:
        self.returning.set()
        self.ended.wait()
        super().give_back(count)


def test_no_listener_is_called_after_a_shutdown(api: PullingApi) -> None:
    made(api, "a")
    before, slots, calls = set(threading.enumerate()), LateSlots(4), list[object]()
    consumer = prepared(Consumer(api.client, "workers", OPTIONS), calls.append)
    consumer._slots = slots
    consumer.start()
    slots.returning.wait()
    consumer.shutdown()
    slots.ended.set()
    assert wait_until(lambda: set(threading.enumerate()) <= before)
    assert calls == []


def test_a_listener_and_who_is_told_of_a_fault_may_shut_the_consumer_down_at_once(api: PullingApi) -> None:
    made(api, "a")
    listening, told = threading.Event(), threading.Event()

    def listen(messages: Sequence[Pulled]) -> None:
        listening.set()
        told.wait()
        time.sleep(0.05)  # The other call waits for this listener by now.
        consumer.shutdown()

    def on_error(fault: Exception) -> None:
        listening.wait()
        told.set()
        consumer.shutdown()

    consumer = prepared(Consumer(api.client, "workers", OPTIONS, on_error), listen)
    consumer.start()
    listening.wait()
    api.client.update_filter("TopicTest", "workers", Filter.tags("other"))  # So the next heartbeat fails.
    assert wait_until(lambda: api.done() == ["a"])
    assert wait_until(lambda: api.client.list_members("TopicTest", "workers") == ())


def test_an_asynchronous_consumer_whose_pull_waits_is_closed_within_a_second(api: PullingApi) -> None:
    made(api)
    waiting, faults = Waiting(api), list[Exception]()

    async def play() -> float:
        async with AsyncClient(URL, transport=waiting) as client:
            consumer = prepared(AsyncConsumer(client, "workers", OPTIONS, faults.append), ignore_later)
            await consumer.start()
            while not waiting.pulling.is_set():
                await asyncio.sleep(0)
            began = time.monotonic()
            await consumer.shutdown()
            return time.monotonic() - began

    assert (asyncio.run(play()) < 1, faults) == (True, [])


def test_a_listener_that_awaits_something_cancelled_gets_its_batch_again(api: PullingApi) -> None:
    made(api, "bad", "good")
    heard: list[str] = []
    faults: list[Exception] = []

    async def consume() -> None:
        async def listen(messages: Sequence[Pulled]) -> None:
            heard.append(messages[0].text())
            if messages[0].text() == "bad" and heard.count("bad") < 4:
                inner = asyncio.ensure_future(asyncio.sleep(60))
                inner.cancel()
                await inner

        options = replace(OPTIONS, suspend_seconds=0, consume_thread_max=1, consume_message_batch_max_size=1)
        async with AsyncClient(URL, transport=api) as client:
            consumer = prepared(AsyncConsumer(client, "workers", options, faults.append), listen)
            async with consumer:
                while "good" not in heard or heard.count("bad") < 4:
                    await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(consume(), 20))

    assert {str(fault) for fault in faults} == {"the listener awaited something that was cancelled"}


@pytest.mark.parametrize("at_once", [1, 2])
def test_listeners_may_shut_their_consumer_down(api: PullingApi, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One while the consumer still starts, and two at once: each is acknowledged before the last one goes on."""
    made(api)
    options = replace(OPTIONS, consume_message_batch_max_size=1)
    together = threading.Barrier(at_once)
    here = threading.current_thread()

    def sleep_here(thread: threading.Thread) -> None:
        if threading.current_thread() is here:
            time.sleep(0.1)

    def listen(messages: Sequence[Pulled]) -> None:
        together.wait(10)
        consumer.shutdown()

    api.put("TopicTest", *"12"[:at_once])
    consumer = prepared(Consumer(api.client, "workers", options), listen)
    with monkeypatch.context() as patched:
        Before(patched).each(threading.Thread, "start", sleep_here)
        consumer.start()
    assert consumer.wait(10)
    consumer.shutdown()
    assert api.done() == [*"12"[:at_once]]

    async def consume() -> None:
        both = asyncio.Event()
        came: list[object] = []

        async def listen_async(messages: Sequence[Pulled]) -> None:
            came.extend(messages)
            if len(came) == at_once:
                both.set()
            await both.wait()
            await later.shutdown()

        async with AsyncClient(URL, transport=api) as client:
            later = prepared(AsyncConsumer(client, "workers", OPTIONS), listen_async)
            await later.start()
            assert await later.wait(10)
            await later.shutdown()

    api.put("TopicTest", *"34"[:at_once])
    asyncio.run(asyncio.wait_for(consume(), 20))
    assert api.done() == [*"12"[:at_once], *"34"[:at_once]]


@pytest.mark.parametrize("seconds", [-1, 43_201])
def test_a_delay_beyond_its_bounds_is_refused(seconds: int) -> None:
    with pytest.raises(ValueError, match="from 0 to 43200"):
        Later(seconds)
