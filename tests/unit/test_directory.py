"""How a process comes to know the subscriptions of a topic."""

import base64
import contextlib
import json
import random
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from tagcast.delivery import publishing
from tagcast.errors import NotFoundError
from tagcast.filters.index.topic_index import TopicIndex
from tagcast.model import Draft, Message, Ordering, TopicSettings
from tagcast.registry import directory, shadows, subscriptions, topics
from tagcast.registry.directory import DIRECTORIES_MAX, Directories
from tagcast.registry.indexing import ARCHIVED_SUBSCRIPTIONS_MIN
from tagcast.registry.kept_subscriptions import KEPT_MIN
from tagcast.registry.subscribing import SubscriptionRequest, put_subscriptions
from tagcast.rows.topic import RECENT_MAX

from tests.fakes.world import FakeWorld


@pytest.fixture
def large() -> FakeWorld:
    fake = FakeWorld()
    fake.topic()
    for number in range(ARCHIVED_SUBSCRIPTIONS_MIN):
        fake.subscribe(f"S{number}", f"tag{number}")
    fake.world.memory.of(Directories).clear()
    return fake


def matched(fake: FakeWorld) -> int:
    fake.publish("1", tags=["tag7"])
    return len(fake.queue.entries)


def test_a_large_topic_is_compiled_once_and_loaded_by_later_cold_starts(
    large: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    matched(large)
    [name] = large.index_archive.contents
    large.world.memory.of(Directories).clear()
    monkeypatch.setattr(TopicIndex, "build", classmethod(lambda cls, filters: pytest.fail("compiled again")))

    assert matched(large) == 2
    assert large.index_archive.loads == [name, name]


@pytest.mark.parametrize("content", [b"not json", b'["another format",[],[],[],[]]'])
def test_a_snapshot_that_cannot_be_read_is_built_anew(large: FakeWorld, content: bytes) -> None:
    matched(large)
    large.index_archive.contents = dict.fromkeys(large.index_archive.contents, content)
    large.world.memory.of(Directories).clear()

    assert matched(large) == 2
    assert set(large.index_archive.contents.values()) != {content}


def test_a_warm_process_reads_only_the_subscriptions_that_changed(large: FakeWorld) -> None:
    matched(large)
    large.subscribe("new", "tag7")
    subscriptions.delete_subscription(large.world, "test1", "S7")
    large.store.rows_read = 0

    present = directory.directory_of(large.world, "test1")

    assert "new" in present.by_name
    assert "S7" not in present.by_name
    assert large.store.rows_read == 4
    assert len(large.index_archive.loads) == 1
    large.first_round("2", tags=["tag7"])
    assert large.pusher.received["new"] == ["2"]


def test_a_change_writes_no_more_rows_than_before_it_was_remembered(large: FakeWorld) -> None:
    before = large.store.writes
    large.subscribe("new", "tag7")
    assert large.store.writes - before == 3


def test_after_more_changes_than_are_remembered_all_subscriptions_are_read(large: FakeWorld) -> None:
    matched(large)
    for number in range(RECENT_MAX + 1):
        large.subscribe(f"new{number}", "tag7")
    large.store.rows_read = 0

    assert len(directory.directory_of(large.world, "test1").by_name) == ARCHIVED_SUBSCRIPTIONS_MIN + RECENT_MAX + 1
    assert large.store.rows_read > ARCHIVED_SUBSCRIPTIONS_MIN


def test_whatever_changes_a_warm_process_knows_what_a_cold_one_reads(fake: FakeWorld) -> None:
    dice = random.Random(5)
    for _ in range(300):
        present = directory.directory_of(fake.world, "test1")
        present.index.get()
        for _ in range(dice.choice([1, 1, 2, 12])):
            change(fake, dice, dice.choice("ABCDEF"))
        warm = directory.directory_of(fake.world, "test1")
        fake.world.memory.of(Directories).clear()
        cold = directory.directory_of(fake.world, "test1")
        assert (warm.by_name, warm.by_ordinal, warm.shadows) == (cold.by_name, cold.by_ordinal, cold.shadows)
        fake.world.memory.of(Directories)["test1"] = warm
        for tag in ("x", "y", "z"):
            message = Message("test1", "1", Draft(b"", tags=(tag,)), 0, 1)
            assert warm.match(message) == cold.match(message)


def change(fake: FakeWorld, dice: random.Random, name: str) -> None:
    with contextlib.suppress(NotFoundError):
        match dice.choice(["put", "put", "several", "delete", "shadow", "unshadow"]):
            case "several":
                known = fake.subscribe(name, dice.choice("xyz")).settings
                wanted = [SubscriptionRequest(each, known) for each in dice.sample("ABCDEF", dice.randint(1, 6))]
                put_subscriptions(fake.world, "test1", wanted, fake.clock.monotonic())
            case "put":
                fake.subscribe(name, dice.choice("xyz"))
            case "delete":
                subscriptions.delete_subscription(fake.world, "test1", name)
            case "shadow":
                shadows.put_shadow(fake.world, "test1", name, {"kind": "tags", "tags": [dice.choice("xyz")]})
            case "unshadow":
                shadows.delete_shadow(fake.world, "test1", name)


@pytest.fixture(scope="module")
def huge() -> FakeWorld:
    """A topic that is kept beside the table, as one process that publishes left it."""
    fake = FakeWorld()
    fake.topic()
    for first in range(0, KEPT_MIN, 100):
        settings = fake.subscribe("S0").settings
        wanted = [SubscriptionRequest(f"S{number}", settings) for number in range(first, first + 100)]
        put_subscriptions(fake.world, "test1", wanted, fake.clock.monotonic())
    return fake


def packed(content: bytes) -> bytes:
    return base64.b64encode(zlib.compress(content))


def kept_texts(fake: FakeWorld) -> list[str]:
    """What is kept beside the table, object by object."""
    contents = fake.index_archive.contents.values()
    return [b"".join(map(zlib.decompress, map(base64.b64decode, each.splitlines()))).decode() for each in contents]


def cold(fake: FakeWorld) -> directory.Directory:
    """Return what a process knows that knew nothing before and pushes."""
    fake.world.memory.of(Directories).clear()
    fake.store.rows_read = 0
    return directory.kept_directory_of(fake.world, "test1")


def test_a_process_that_knows_nothing_of_a_large_topic_reads_only_what_changed_since_it_was_kept(
    huge: FakeWorld,
) -> None:
    whole = cold(huge)
    assert huge.store.rows_read > KEPT_MIN, "nobody kept it before"
    assert cold(huge).by_ordinal == whole.by_ordinal
    assert huge.store.rows_read < 5

    huge.subscribe("new")
    subscriptions.delete_subscription(huge.world, "test1", "S7")
    shadows.put_shadow(huge.world, "test1", "S8", None)
    changed = cold(huge)
    assert huge.store.rows_read < 10
    assert changed.by_name.keys() == whole.by_name.keys() - {"S7"} | {"new"}
    assert len(changed.shadows) == 1
    huge.world.memory.of(Directories).clear()
    assert changed.by_ordinal == directory.directory_of(huge.world, "test1").by_ordinal


def test_a_topic_that_changed_too_often_since_it_was_kept_is_read_and_kept_anew(huge: FakeWorld) -> None:
    cold(huge)
    for number in range(RECENT_MAX + 1):
        huge.subscribe(f"newer{number}")
    assert cold(huge).by_name.keys() >= {f"newer{number}" for number in range(RECENT_MAX + 1)}
    assert huge.store.rows_read > KEPT_MIN
    cold(huge)
    assert huge.store.rows_read < 5


@pytest.mark.parametrize(
    "damaged",
    [
        lambda kept: b"no zlib",
        lambda kept: packed(b'["another format", 7, [], [], []]'),
        lambda kept: packed(b"{}"),
        lambda kept: b"",
        lambda kept: kept[:-100],
        lambda kept: kept[: kept.rindex(b"\n")],
    ],
)
def test_what_is_damaged_or_of_another_form_is_read_from_the_table(
    huge: FakeWorld, damaged: Callable[[bytes], bytes]
) -> None:
    whole = cold(huge)
    contents = {name: damaged(kept) for name, kept in huge.index_archive.contents.items()}
    huge.index_archive.contents = dict(contents)
    assert cold(huge).by_ordinal == whole.by_ordinal
    assert contents.items().isdisjoint(huge.index_archive.contents.items())


def test_a_large_topic_with_a_group_is_kept_but_for_the_secret_of_its_receipts(huge: FakeWorld) -> None:
    group = huge.group("group")
    secret = group.settings.secret
    assert secret
    huge.index_archive.contents.clear()
    known = cold(huge)
    assert len(huge.index_archive.contents) == 1
    assert all(secret not in text for text in kept_texts(huge))
    cold(huge)
    assert huge.store.rows_read < 5
    assert known.by_name["group"] == replace(group, settings=replace(group.settings, secret=None))


def test_no_secret_is_kept_beside_the_table(huge: FakeWorld) -> None:
    huge.subscribe("S1", secret="open sesame")
    huge.index_archive.contents.clear()
    cold(huge)
    [plain] = kept_texts(huge)
    assert '"sealed": ' in plain
    assert "open sesame" not in plain


def test_one_subscription_of_a_large_topic_is_read_without_the_others(large: FakeWorld) -> None:
    first = directory.directory_of(large.world, "test1").by_name["S1"]
    large.world.memory.of(Directories).clear()
    large.store.rows_read = 0

    assert directory.subscription_at(large.world, "test1", first.ordinal) == first
    assert large.store.rows_read == 3
    subscriptions.delete_subscription(large.world, "test1", "S1")
    again = large.subscribe("S1")
    assert directory.subscription_at(large.world, "test1", first.ordinal) is None, "another one has its name"
    assert directory.subscription_at(large.world, "test1", again.ordinal) == again


def test_small_topics_and_functions_that_do_not_match_never_ask_the_archive(fake: FakeWorld, large: FakeWorld) -> None:
    fake.subscribe("A")
    fake.publish("1")

    directory.directory_of(large.world, "test1")

    assert fake.index_archive.loads == large.index_archive.loads == []


def test_the_archive_names_an_index_by_its_topic_and_version(large: FakeWorld) -> None:
    matched(large)

    topic = directory.read_topic(large.world, "test1")
    assert list(large.index_archive.contents) == [f"{topic.topic_id}/{ARCHIVED_SUBSCRIPTIONS_MIN:012d}.json"]


def test_a_process_that_knows_the_subscriptions_takes_the_topic_s_settings_as_they_are_now(fake: FakeWorld) -> None:
    fake.subscribe("A")
    fake.publish("1")
    topics.put_topic(fake.world, "test1", TopicSettings(60, body_bytes_max=5, ordering=Ordering.NONE))

    [accepted] = publishing.publish(fake.world, "test1", [Draft(b"2")])

    assert accepted.expires_at - accepted.accepted_at == 60_000
    assert fake.queue.entries[-1].group == accepted.message_id
    assert directory.directory_of(fake.world, "test1").topic.settings.body_bytes_max == 5


@pytest.mark.parametrize(("before", "after"), [(1, True), (True, 1), (0, False)])
def test_a_warm_process_knows_a_number_from_a_boolean(fake: FakeWorld, before: object, after: object) -> None:
    fake.subscribe("A", filter={"kind": "event_pattern", "pattern": {"paid": [before]}})
    fake.publish("{}")
    fake.subscribe("A", filter={"kind": "event_pattern", "pattern": {"paid": [after]}})
    bodies = [json.dumps({"paid": each}) for each in (before, after)]
    assert [publishing.publish(fake.world, "test1", (Draft(body.encode()),))[0].matched for body in bodies] == [0, 1]


def test_a_topic_made_again_is_not_taken_for_the_one_before(fake: FakeWorld) -> None:
    fake.subscribe("A")
    fake.publish("1")
    subscriptions.delete_subscription(fake.world, "test1", "A")
    topics.delete_topic(fake.world, "test1")
    fake.topic()
    fake.subscribe("B")
    again = directory.directory_of(fake.world, "test1")
    old = replace(again.topic, topic_id="07457000000000000000")
    fake.world.memory.of(Directories)["test1"] = replace(again, topic=old, by_name={})

    assert directory.directory_of(fake.world, "test1").by_name.keys() == {"B"}


def test_a_version_is_read_once_and_its_subscriptions_are_kept(fake: FakeWorld) -> None:
    fake.subscribe("A")
    first = directory.directory_of(fake.world, "test1")

    assert directory.directory_of(fake.world, "test1").index is first.index
    fake.subscribe("B")
    assert directory.directory_of(fake.world, "test1").by_name.keys() == {"A", "B"}


def test_a_process_keeps_a_bounded_number_of_topics() -> None:
    fake = FakeWorld()
    for number in range(DIRECTORIES_MAX + 1):
        fake.topic(f"t{number}")
        directory.directory_of(fake.world, f"t{number}")
        assert len(fake.world.memory.of(Directories)) == (number + 1 if number < DIRECTORIES_MAX else 1)


def test_a_process_keeps_a_bounded_number_of_large_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "KEPT_MIN", 1)
    monkeypatch.setattr(directory, "DIRECTORIES_MAX", 2)
    fake = FakeWorld()
    for name in ("t0", "t1", "t2"):
        fake.topic(name)
        fake.subscribe("A", topic=name)
        directory.kept_directory_of(fake.world, name)
    assert fake.world.memory.of(Directories).keys() == {"t2"}


def test_a_topic_is_read_although_another_thread_forgets_all_topics_meanwhile(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def set_and_forget(known: Directories, name: str, found: directory.Directory) -> None:
        known.clear()

    monkeypatch.setattr(Directories, "__setitem__", set_and_forget)
    assert directory.directory_of(fake.world, "test1").topic.name == "test1"
