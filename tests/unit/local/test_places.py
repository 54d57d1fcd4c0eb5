"""Workers are shared by topics: one has half of them, however much it has to do, and another begins at once."""

import asyncio
from collections import Counter

import pytest

from local.functions.places import Places, topic_of


async def begun(places: Places, topics: list[str | None]) -> Counter[str | None]:
    """Let an event of each of *topics* ask for a place, and return how many of each begin."""
    before = [asyncio.create_task(places.take(topic)) for topic in topics]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return Counter(topic for topic, task in zip(topics, before, strict=True) if task.done())


async def test_a_topic_has_half_of_the_places_and_another_begins_at_once() -> None:
    places = Places(8)
    assert await begun(places, ["hanging"] * 400) == {"hanging": 4}
    assert await begun(places, ["a", "b", "a"]) == {"a": 2, "b": 1}
    assert places.waiting == 396


async def test_three_topics_without_end_leave_a_place_for_a_fourth() -> None:
    places = Places(8)
    for topic in ("x", "y", "z"):
        await begun(places, [topic] * 100)
    assert await begun(places, ["late"]) == {"late": 1}


async def test_a_place_that_is_given_back_goes_to_who_asked_first() -> None:
    places, order = Places(2), list[int]()
    held = await places.take("t")

    async def turn(number: int) -> None:
        place = await places.take("t")
        order.append(number)
        places.give_back(place)

    turns = [asyncio.create_task(turn(number)) for number in range(5)]
    await asyncio.sleep(0)
    places.give_back(held)
    await asyncio.gather(*turns)
    assert order == [0, 1, 2, 3, 4]


async def test_what_is_about_no_topic_takes_any_free_place() -> None:
    assert await begun(Places(4), [None] * 6) == {None: 4}


async def test_who_waits_no_longer_keeps_no_place() -> None:
    places = Places(1)
    held = await places.take("t")
    gone = asyncio.create_task(places.take("u"))
    await asyncio.sleep(0)
    places.give_back(held)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    await places.take("t")
    assert places.waiting == 0


async def test_of_a_topic_two_begin_at_once_and_others_when_these_ended_or_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("local.functions.places.YOUNG_S", 0.05)

    places = Places(16, young_max=2)
    assert await begun(places, ["hanging"] * 9) == {"hanging": 2}
    assert await begun(places, ["other"]) == {"other": 1}
    await asyncio.sleep(0.07)
    assert places.waiting == 5, "the first two last: two more begin beside them"
    await asyncio.sleep(0.25)
    assert places.waiting == 1, "a topic has half of the places"


async def test_who_ends_soon_lets_the_next_of_its_topic_begin() -> None:
    places = Places(16, young_max=2)
    for _ in range(20):
        places.give_back(await asyncio.wait_for(places.take("t"), 0.5))


@pytest.mark.parametrize(
    ("event", "topic"),
    [
        (b'{"topic": "t", "subscription_id": "1.0", "generation": "1", "rounds": 0}', "t"),
        (b'{"Records": [{"body": "{\\"topic\\": \\"t\\"}"}, {"body": "{\\"topic\\": \\"t\\"}"}]}', "t"),
        (b'{"Records": [{"body": "{\\"topic\\": \\"t\\"}"}, {"body": "{\\"topic\\": \\"u\\"}"}]}', None),
        (b'{"Records": [{"body": "{"}]}', None),
        (b'{"Records": []}', None),
        (b"[]", None),
    ],
)
def test_an_event_is_about_the_topic_that_all_of_it_names(event: bytes, topic: str | None) -> None:
    assert topic_of(event) == topic
