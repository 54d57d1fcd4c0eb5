"""Every list of the API goes on at its cursor until it ends, with nothing twice and nothing left out."""

import json
from typing import Any

import pytest
from tagcast.registry.subscriptions import change_filter
from tagcast_aws.api.http.paging import encode_cursor
from tagcast_aws.api.routes import description

from local.rules.limits import LAMBDA_PAYLOAD_BYTES_MAX
from tests.fakes.handlers import answered
from tests.fakes.pages import pages
from tests.fakes.world import FAIL, FakeWorld

COUNT = 5
S = "/topics/test1/subscriptions"
PULL: dict[str, Any] = {"endpoint": {"protocol": "pull"}}
LISTS = {
    "list_topics": ("/topics", "topics", "name"),
    "list_subscriptions": (S, "subscriptions", "name"),
    "list_messages": ("/topics/test1/messages", "messages", "message_id"),
    "list_backlog": (f"{S}/s1/backlog", "deliveries", "message_id"),
    "list_lanes": ("/lanes", "lanes", "subscription"),
    "list_versions": (f"{S}/s1/versions", "versions", "version"),
    "list_attempts": ("/topics/test1/messages/{message_id}/attempts", "deliveries", "subscription"),
}
TRIED_ELSEWHERE = {
    "find_message": "wide messages",
    "get_message": "wide messages",
    "list_hosts": "tests/unit/test_circuit.py",
    "read_history": "tests/unit/test_history.py",
    "tail": "test_tail.py",
}


@pytest.fixture(scope="module")
def world() -> FakeWorld:
    """Topics, subscriptions that are all blocked, and messages: as many of each."""
    fakes = FakeWorld()
    fakes.topic()
    for number in range(1, COUNT + 1):
        fakes.subscribe(f"s{number}")
        fakes.pusher.behaviours[f"s{number}"] = lambda push: FAIL
        if number > 1:
            fakes.subscribe("s1")
            answered(fakes.world, "PUT", f"/topics/topic{number}", "{}")
    fakes.publish(*map(str, range(COUNT)))
    fakes.deliver()
    return fakes


def asked(fakes: FakeWorld, path: str) -> dict[str, Any]:
    answer = answered(fakes.world, "GET", path)
    assert answer["statusCode"] == 200, answer
    return dict(json.loads(answer["body"]))


@pytest.mark.parametrize("size", [1, 2, COUNT])
@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_the_same_whatever_the_size_of_its_pages(world: FakeWorld, name: str, size: int) -> None:
    path, items, key = LISTS[name]
    first = min(each["message_id"] for each in asked(world, "/topics/test1/messages")["messages"])
    path = path.format(message_id=first)
    whole = [each[key] for each in asked(world, path)[items]]
    assert len(set(whole)) == len(whole) == COUNT

    found = pages(
        lambda cursor: asked(world, f"{path}?limit={size}" + (f"&cursor={cursor}" if cursor else "")),
        lambda page: page["next_cursor"],
    )

    assert max(len(page[items]) for page in found) <= size
    assert [each[key] for page in found for each in page[items]] == whole
    assert len(found) >= COUNT // size


# DynamoDB refuses a bound behind the end of a list, a key of more than 1,024 bytes, and a place of another shard.
@pytest.mark.parametrize(
    "place", ["\U0010ffff", "a" * 1_500, json.dumps([[0, "test1", "07457000000000000001.3"]] * 8), '[[0,"",""]]']
)
@pytest.mark.parametrize("path", ["/hosts", *(path for path, _, _ in LISTS.values() if "attempts" not in path)])
def test_a_cursor_that_no_page_of_the_list_has_is_refused(world: FakeWorld, path: str, place: str) -> None:
    answer = answered(world.world, "GET", f"{path}?cursor={encode_cursor(place)}")

    assert answer["statusCode"] == 422
    assert json.loads(answer["body"])["errors"][0]["pointer"] == "#/cursor"


def test_every_list_of_the_document_is_tried() -> None:
    operations = [each for methods in description()["paths"].values() for each in methods.values()]
    paged = {
        each["operationId"]
        for each in operations
        if "cursor" in [parameter["name"] for parameter in each.get("parameters", ())]
    }
    assert paged == {*LISTS, *TRIED_ELSEWHERE}


@pytest.mark.parametrize(("count", "status"), [(80, 200), (100, 413)])
def test_an_answer_about_many_subscriptions_fits_or_the_request_is_refused(count: int, status: int) -> None:
    fakes = FakeWorld()
    fakes.topic()
    endpoint = {"protocol": "https", "url": "https://example.com/"}
    filter = {"kind": "sql92", "expression": f"p = '{chr(34) * 16_370}'"}
    many = [{"name": f"s{number}", "endpoint": endpoint, "filter": filter} for number in range(count)]

    sent = answered(fakes.world, "POST", f"{S}/batch", json.dumps({"subscriptions": many}))

    assert sent["statusCode"] == status
    assert len(json.dumps(sent, ensure_ascii=False).encode()) <= LAMBDA_PAYLOAD_BYTES_MAX
    assert asked(fakes, "/topics/test1")["subscriptions"] == (count if status == 200 else 0)


LONG = {f"{chr(34) * 170}{number}": 1 for number in range(100)}
"""Unknown fields with long names of quotes, which take two bytes in a request, and four in an answer."""
BAD_PATTERN = {"kind": "event_pattern", "pattern": {"a": [{chr(0x1F600) * 9_000: 1}]}}


@pytest.mark.parametrize(
    ("path", "good", "bad", "count"),
    [
        ("/topics/test1/messages/batch", {"body": "x"}, LONG, 99),
        (f"{S}/batch", {"name": "s"} | PULL, PULL | LONG, 99),
        (f"{S}/batch", {"name": "s"} | PULL, PULL | {"name": "t", "filter": BAD_PATTERN}, 50),
    ],
)
def test_the_answer_to_a_batch_with_many_long_faults_can_be_sent(
    path: str, good: dict[str, Any], bad: dict[str, Any], count: int
) -> None:
    fakes = FakeWorld()
    fakes.topic()
    batch = {"messages" if "messages" in path else "subscriptions": [good, *[bad] * count]}

    sent = answered(fakes.world, "POST", path, json.dumps(batch, ensure_ascii=False))

    assert sent["statusCode"] == 200
    assert len(json.dumps(sent, ensure_ascii=False).encode()) <= LAMBDA_PAYLOAD_BYTES_MAX
    results = json.loads(sent["body"])["results"]
    assert ["error" in each for each in results] == [False, *[True] * count]
    assert all(each["error"]["errors"] for each in results[1:])


def test_the_answer_to_a_request_with_one_huge_name_can_be_sent() -> None:
    fakes = FakeWorld()
    fakes.topic()

    sent = answered(fakes.world, "POST", "/topics/test1/messages", json.dumps({chr(34) * 2_000_000: 1}))

    assert sent["statusCode"] == 422
    assert len(json.dumps(sent)) <= LAMBDA_PAYLOAD_BYTES_MAX
    assert json.loads(sent["body"])["errors"][0]["detail"] == "is not a known field"


def test_a_page_of_large_filters_fits_an_answer_and_leads_to_the_next() -> None:
    fakes, expression = FakeWorld(), f"p = '{chr(0x1F600) * 16_370}'"
    fakes.topic()
    for number in range(100):
        fakes.subscribe(f"s{number:02}", filter={"kind": "sql92", "expression": expression})
    for number in range(100):
        change_filter(fakes.world, "test1", "s00", {"kind": "sql92", "expression": f"q{number} = {expression[4:]}"})

    for path, key in (("subscriptions", "name"), ("subscriptions/s00/versions", "version")):
        found, cursor = list[Any](), ""
        while cursor is not None:
            sent = answered(fakes.world, "GET", f"/topics/test1/{path}?limit=100{cursor and f'&cursor={cursor}'}")
            assert len(json.dumps(sent, ensure_ascii=False).encode()) <= LAMBDA_PAYLOAD_BYTES_MAX
            body = json.loads(sent["body"])
            found += [each[key] for each in body[path.rpartition("/")[2]]]
            cursor = body["next_cursor"]
        assert len(found) == len(set(found)) >= 100
