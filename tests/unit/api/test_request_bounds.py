"""Requests that hold more than they may: refused for little work, whichever of their lists is too long.

Which lists there are is read from the API's document.
"""

import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from tagcast.filters.event_pattern.pattern import PATTERN_CHARACTERS_MAX, PATTERN_VALUES_MAX
from tagcast.filters.kinds import KINDS
from tagcast.filters.routing_key_filter import FILTER_PATTERNS_MAX, KEY_BYTES_MAX
from tagcast.filters.sql92.dialect import CHARACTERS_MAX, DEPTH_MAX, ELEMENTS_MAX, TERMS_MAX
from tagcast.filters.tag_filters import EXPRESSION_CHARACTERS_MAX, EXPRESSION_TAGS_MAX, FILTER_TAGS_MAX
from tagcast.strict_json import JSON_VALUES_MAX
from tagcast_aws.api.limits import FAULTS_MAX, REQUEST_BYTES_MAX
from tagcast_aws.api.routes import description

from tests.fakes.handlers import answered
from tests.fakes.world import FakeWorld
from tests.tenth import TENTHS, of_this_commit

CPU_S_MAX, MEMORY_BYTES_MAX = 0.2, 50_000_000
SCHEMAS = description()["components"]["schemas"]
PULL = {"endpoint": {"protocol": "pull"}}
OTHERWISE_GOOD: dict[str, dict[str, Any]] = {
    "/topics/{topic}/messages": {"body": "x"},
    "/topics/{topic}/messages/batch": {"body": "x"},
    "/topics/{topic}/subscriptions/{subscription}/replay": {"body": "x", "replay_of": "0" * 20},
    "/topics/{topic}/subscriptions/{subscription}": PULL,
    "/topics/{topic}/subscriptions/batch": {"name": "s"} | PULL,
    "/filters/test": {"message": {}},
}
"""What a body, or an item of a batch, holds besides what is too long."""

Fill = Callable[[int], Any]
"""Makes a value of so many items."""


def texts(items: int) -> list[str]:
    return [f"t{n}" for n in range(items)]


def unknown(items: int) -> dict[str, int]:
    return {f"x{n}": 1 for n in range(items)}


def tags(fill: Fill) -> Fill:
    return lambda n: {"kind": "tags", "tags": fill(n)}


def keys(fill: Fill) -> Fill:
    return lambda n: {"kind": "routing_key", "patterns": fill(n)}


def expression(kind: str, fill: Fill) -> Fill:
    return lambda n: {"kind": kind, "expression": fill(n)}


def pattern(fill: Fill) -> Fill:
    return lambda n: {"kind": "event_pattern", "pattern": fill(n)}


FILTERS: dict[str, tuple[str, int, Fill]] = {
    "different tags": ("/tags", FILTER_TAGS_MAX, tags(texts)),
    "one tag again and again": ("/tags", 10 * FILTER_TAGS_MAX, tags(lambda n: ["t"] * n)),
    "numbers for tags": ("/tags", 10 * FILTER_TAGS_MAX, tags(lambda n: [1] * n)),
    "one long tag": ("/tags/0", 64, tags(lambda n: ["t" * n])),
    "tags and more": ("", FAULTS_MAX, lambda n: {"kind": "tags", "tags": []} | unknown(n)),
    "patterns": ("/patterns", FILTER_PATTERNS_MAX, keys(texts)),
    "one long pattern": ("/patterns/0", KEY_BYTES_MAX, keys(lambda n: ["t" * n])),
    "tag expression": ("/expression", EXPRESSION_TAGS_MAX, expression("tag_expression", lambda n: "||".join(texts(n)))),
    "long tag expression": ("/expression", EXPRESSION_CHARACTERS_MAX, expression("tag_expression", lambda n: "|" * n)),
    "characters": ("/expression", CHARACTERS_MAX, expression("sql92", lambda n: "é" * n)),
    "terms": ("/expression", TERMS_MAX, expression("sql92", lambda n: " OR ".join(["a=1"] * n))),
    "elements": ("/expression", ELEMENTS_MAX, expression("sql92", lambda n: f"a IN ({','.join(['1'] * n)})")),
    "levels": ("/expression", DEPTH_MAX, expression("sql92", lambda n: "(" * n + "a=1" + ")" * n)),
    "values of a pattern": ("/pattern/a", PATTERN_VALUES_MAX, pattern(lambda n: {"a": ["x"] * n})),
    "characters of a pattern": ("/pattern", PATTERN_CHARACTERS_MAX, pattern(lambda n: {"a": ["é" * n]})),
    "faults of a pattern": ("/pattern", FAULTS_MAX, pattern(unknown)),
    "function and more": ("", FAULTS_MAX, lambda n: {"kind": "function", "function": "f"} | unknown(n)),
    "long function": ("/function", 170, lambda n: {"kind": "function", "function": "f" * n}),
}


@dataclass(frozen=True)
class List:
    """What may hold *most* items in the body of a request; *pointer* is where its faults are."""

    method: str
    path: str
    place: str
    pointer: str
    most: int
    fill: Fill

    def body(self, items: int) -> str:
        """Return a body that is good but for this list of so many items."""
        value = self.fill(items)
        for step in reversed(self.place.split("/")[1:]):
            value = [value] if step == "0" else {step: value}
        others = OTHERWISE_GOOD.get(self.path, {})
        for batch in ("messages", "subscriptions"):
            if batch in value:
                return json.dumps(value | {batch: [others | item for item in value[batch]]})
        return json.dumps(others | value)


def lists(schema: dict[str, Any], place: str) -> Iterator[tuple[str, str, str, int, Fill]]:
    """Yield a name, the place, the place of faults, the bound and the filling of whatever has a size in *schema*."""
    if "$ref" in schema:
        schema = SCHEMAS[schema["$ref"].rpartition("/")[2]]
    for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from lists(each, place)
    if schema.get("format") == "filter":
        for name, (within, most, fill) in FILTERS.items():
            yield name, place, place + within, most, fill
    elif schema.get("type") == "array":
        of_texts = schema["items"].get("type") == "string"
        yield "items", place, place, schema["maxItems"], texts if of_texts else lambda n: [unknown(1)] * n
        yield from lists(schema["items"], f"{place}/0")
    elif schema.get("type") == "object" and "properties" not in schema:
        yield "members", place, place, schema["maxProperties"], lambda n: {f"x-{i}": "v" for i in range(n)}
        yield "bad members", place, place, schema["maxProperties"], lambda n: {f"{i}": [] for i in range(n)}
    elif schema.get("type") == "object":
        fields = schema["properties"]
        which = {"protocol", "strategy"} & fields.keys()
        told = {name: fields[name].get("const") or fields[name]["enum"][0] for name in which}
        yield "unknown fields", place, place, FAULTS_MAX, lambda n: told | unknown(n)
        for name, inner in fields.items():
            yield from lists(inner, f"{place}/{name}")


def every() -> Iterator[Any]:
    """Yield whatever has a size in the bodies of all routes.

    Routes share the models of their parts, and all lists are counted by one rule: `make test` fills each part of one
    route, and of these a tenth that the commit chooses; `make nightly` fills all.
    """
    filled: set[tuple[str, str]] = set()
    for path, methods in description()["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            for name, place, pointer, most, fill in lists(content.get("application/json", {}).get("schema", {}), ""):
                if name in FILTERS and name != "different tags" and path != "/filters/test":
                    continue  # One compiler reads the filters of all routes.
                each = List(method.upper(), path, place, pointer, most, fill)
                part = place.removesuffix("/0").rpartition("/")[2] or f"{method} {path}"
                is_played = (part, name) not in filled and len(filled) % TENTHS == of_this_commit()
                filled.add((part, name))
                marks = [] if is_played else [pytest.mark.nightly]
                yield pytest.param(each, id=f"{each.method} {path} {each.place} {name}", marks=marks)


EVERY = tuple(every())


def pointers(each: List, answer: dict[str, Any]) -> list[str]:
    """Return where something is wrong with a body; faults of the first item of a batch point into that."""
    told = json.loads(answer["body"])
    if "results" not in told:
        return [fault["pointer"].removeprefix("#") for fault in told.get("errors", ())]
    batch = "/subscriptions/0" if "subscriptions/batch" in each.path else "/messages/0"
    return [fault["pointer"].replace("#", batch) for fault in told["results"][0]["error"]["errors"]]


def timed(request: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], float]:
    began = time.process_time()
    answer = request()
    return answer, time.process_time() - began


def cost(request: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], float, int]:
    """Return the answer to a request, the seconds of CPU that it takes, and by how many bytes memory grows meanwhile.

    A request that takes too long may have been the first of its kind, and is timed again.
    """
    answer, seconds = timed(request)
    if seconds > CPU_S_MAX:
        answer, seconds = timed(request)
    tracemalloc.start()
    request()
    grown = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return answer, seconds, grown


@pytest.fixture(scope="module")
def fakes() -> FakeWorld:
    world = FakeWorld()
    assert answered(world.world, "PUT", "/topics/t", "{}")["statusCode"] == 201
    assert answered(world.world, "PUT", "/topics/t/subscriptions/s", json.dumps(PULL))["statusCode"] == 201
    return world


@pytest.mark.parametrize("each", EVERY)
def test_ten_times_its_bound_and_a_request_full_of_it_are_refused_for_little_work(fakes: FakeWorld, each: List) -> None:
    path = each.path.format(topic="t", subscription="s", member_id="c")
    most = REQUEST_BYTES_MAX * 100_000 // len(each.body(100_000)) * 4 // 5
    for items in (10 * each.most, min(most, JSON_VALUES_MAX - 200), most):
        body = each.body(items)
        assert len(body) <= REQUEST_BYTES_MAX
        answer, seconds, grown = cost(partial(answered, fakes.world, each.method, path, body))
        if answer["statusCode"] != 400:
            assert [pointer for pointer in pointers(each, answer) if pointer.startswith(each.pointer)], answer
        assert (seconds <= CPU_S_MAX, grown <= MEMORY_BYTES_MAX) == (True, True), (seconds, grown)


def test_every_kind_of_filter_is_filled_here() -> None:
    assert {fill(1)["kind"] for _, _, fill in FILTERS.values()} == set(KINDS)
