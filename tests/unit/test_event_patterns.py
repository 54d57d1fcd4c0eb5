"""Event patterns: what the engine of EventBridge said of pairs, and what is decided otherwise."""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tagcast.errors import FilterEvaluationError, InvalidFilterError
from tagcast.filters.event_pattern import event
from tagcast.filters.event_pattern.address import address_digits
from tagcast.filters.event_pattern.evaluate import TOO_MUCH
from tagcast.filters.event_pattern.leaves import IgnoringCase
from tagcast.filters.index.topic_index import TopicIndex
from tagcast.filters.kinds import compile_filter

from tests.event_patterns.verdicts import our_verdict
from tests.fakes.calls import Before

PAIRS = json.loads((Path(__file__).parents[1] / "vectors" / "event_patterns.json").read_text("utf-8"))


def message(body: Any, **properties: str) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return SimpleNamespace(tags=("t1",), routing_key="order.new", properties=properties, body=content)


def refused(pattern: object, **more: object) -> dict[str, str]:
    with pytest.raises(InvalidFilterError) as caught:
        compile_filter({"kind": "event_pattern", "pattern": pattern, **more})
    return {fault.pointer: fault.detail for fault in caught.value.faults}


def says(pattern: object, body: Any, properties: dict[str, str] | None = None, **more: Any) -> bool | None:
    value = {"kind": "event_pattern", "pattern": pattern, **more}
    return compile_filter(value).evaluate(message(body, **(properties or {})))


def test_verdicts_and_refusals_are_those_of_the_official_engine() -> None:
    assert len(PAIRS) >= 600
    different = [(pair, ours) for pair in PAIRS if (ours := our_verdict(pair[0], pair[1])) != pair[2]]
    assert different == []


def test_a_body_that_is_no_json_object_does_not_match_and_explain_says_so() -> None:
    filter = compile_filter({"kind": "event_pattern", "pattern": {"a": [{"exists": False}]}})
    bodies = {
        b"hello": "not JSON",
        b'["a"]': "not an object",
        b"": "not JSON",
        b"\xff": "not UTF-8",
        b'{"a": 1, "a": 2}': "twice",
        b'{"b": "\\ud800"}': "surrogate",
        b'{"b": NaN}': "NaN",
        b'{"a":' * 101 + b"1" + b"}" * 101: "too deeply",
        b'{"b": [' + b"1," * 20_000 + b"1]}": "more than 20000 values",
    }
    for body, reason in bodies.items():
        tree = filter.explain(message(body))
        assert (filter.evaluate(message(body)), tree.verdict) == (False, "not_matched")
        assert reason in tree.note
    assert filter.evaluate(message({"b": 1})) is True


def test_a_body_is_read_once_for_all_that_read_it(before: Before) -> None:
    read: list[bytes] = []
    before.each(event, "parse", lambda content, **more: read.append(content))
    scopes = ("body", "envelope", "body")
    values = [{"kind": "event_pattern", "pattern": {"x": [n]}, "scope": scope} for n, scope in enumerate(scopes)]
    tagged = {"kind": "tags", "tags": ["t1"]}
    body, other = message({"x": "read once"}), message({"x": "read by nobody"})

    TopicIndex.build(dict(enumerate(values))).match(body)
    compile_filter(values[0]).evaluate(body)
    TopicIndex.build({1: tagged, 2: {**values[0], "scope": "properties"}}).match(other)

    assert read == [body.body]


def test_the_envelope_is_made_of_properties_routing_key_tags_and_body() -> None:
    pattern = {"source": ["shop"], "detail-type": ["order.new"], "resources": ["t1"], "detail": {"price": [7]}}
    said: dict[str, Any] = {"scope": "envelope"}
    assert says(pattern, {"price": 7}, {"source": "shop"}, **said)
    assert not says(pattern, {"price": 7}, {"source": "shop", "detail-type": "other"}, **said)
    assert not says(pattern, {"price": 7}, **said)
    assert says({"account": ["1"], "time": [{"prefix": "2026"}]}, {}, {"account": "1", "time": "2026-11"}, **said)
    assert not says({"detail-type": ["order.new"]}, b"no JSON", **said)


def test_properties_are_texts_to_eventbridge_and_attributes_to_sns() -> None:
    properties = {"price": "99", "tags": '["a", "b"]', "a.b": "x"}
    both: list[dict[str, Any]] = [{"scope": "properties", "dialect": dialect} for dialect in ("eventbridge", "sns")]
    cases = [
        ({"price": ["99"]}, (True, True)),
        ({"price": [99]}, (False, True)),
        ({"price": [{"numeric": [">", 0, "<=", 100]}]}, (False, True)),
        ({"price": [{"anything-but": [99]}]}, (True, False)),
        ({"price": [{"anything-but": ["99"]}]}, (False, False)),
        ({"price": [{"prefix": "9"}]}, (True, True)),
        ({"tags": ["a"]}, (False, True)),
        ({"tags": ["c"]}, (False, False)),
        ({"tags": ['["a", "b"]']}, (True, False)),
        ({"a.b": ["x"]}, (True, True)),
        ({"missing": [{"exists": False}]}, (True, True)),
    ]
    for pattern, expected in cases:
        assert tuple(says(pattern, b"", properties, **each) for each in both) == expected, pattern


def test_a_value_that_no_property_has_is_warned_of() -> None:
    def warnings(leaf: object, **more: str) -> tuple[str, ...]:
        pattern = {"store": ["a"], "price": ["x", leaf]}
        compiled = compile_filter({"kind": "event_pattern", "pattern": pattern, "scope": "properties", **more})
        return compiled.warnings

    others: tuple[object, ...] = (7, True, None, {"numeric": [">", 7]}, {"anything-but": [7, 8]})
    texts: tuple[object, ...] = (
        "7",
        "10.0.0.1",
        {"prefix": "7"},
        {"anything-but": "7"},
        {"anything-but": {"prefix": "7"}},
    )
    for leaf in others:
        assert ["properties are texts" in each for each in warnings(leaf)] == [True], leaf
        assert warnings(leaf, dialect="sns") == warnings(leaf, scope="body") == (), leaf
    for leaf in texts:
        assert warnings(leaf) == (), leaf


@pytest.mark.parametrize("text", ["301.5", "+301.500", "3.015e2", "3015E-1", "000000000301.5", "301.50000000"])
def test_a_decimal_attribute_is_a_number_in_each_notation(text: str) -> None:
    said: dict[str, Any] = {"scope": "properties", "dialect": "sns"}
    for leaf in (301.5, {"numeric": ["=", 301.5]}, {"numeric": [">", 301.49, "<=", 301.5]}, text):
        assert says({"price": [leaf]}, b"", {"price": text}, **said)
    assert not says({"price": [{"anything-but": [301.5]}]}, b"", {"price": text}, **said)


def test_an_attribute_may_have_more_decimals_than_a_policy() -> None:
    said: dict[str, Any] = {"scope": "properties", "dialect": "sns"}
    for text in ("0.30000000000000004", ".5", "5e-7", "1700000000000"):
        assert says({"price": [{"numeric": [">", 0]}]}, b"", {"price": text}, **said), text
    for text in ("", " 5", "5 ", ".", "1e400", "1e9999999999999999999", "NaN", "Infinity", "0x1", "1_0", "\u0665"):
        assert not says({"price": [{"numeric": [">=", -1_000_000_000]}]}, b"", {"price": text}, **said), text


def test_a_message_without_attributes_matches_no_policy_for_attributes() -> None:
    """As SNS documents it: a policy with "exists": false, too, needs a message with an attribute."""
    patterns = [{"store": [{"exists": False}]}, {"$or": [{"store": [{"exists": False}]}, {"a": ["b"]}]}]
    for pattern in patterns:
        value = {"kind": "event_pattern", "pattern": pattern, "scope": "properties", "dialect": "sns"}
        compiled, bare, other = compile_filter(value), message({"a": 1}), message({"a": 1}, region="eu")
        assert [compiled.evaluate(each) for each in (bare, other)] == [False, True]
        assert [TopicIndex.build({7: value}).match(each).ordinals for each in (bare, other)] == [(), (7,)]
        assert "no properties" in compiled.explain(bare).note
        assert compile_filter({**value, "dialect": "eventbridge"}).evaluate(bare)
        assert compile_filter({**value, "scope": "body"}).evaluate(message({}))


def test_a_list_of_objects_is_no_list_of_attributes_whatever_the_order_of_properties() -> None:
    properties = {"a.b": "y", "a": '[{"b": "x"}]'}
    for each in (properties, dict(reversed(properties.items()))):
        assert says({"a.b": ["y"]}, b"", each, scope="properties", dialect="sns")
        assert not says({"a.b": ["x"]}, b"", each, scope="properties", dialect="sns")


def test_no_text_of_a_message_longer_than_an_address_is_kept() -> None:
    text = "1" * 10_000
    before = sys.getrefcount(text)

    assert address_digits(text) is None
    assert sys.getrefcount(text) == before


def test_a_property_with_a_dot_is_a_path_too() -> None:
    assert says({"a": {"b": ["x"]}}, b"", {"a.b": "x"}, scope="properties")


@pytest.mark.parametrize(
    ("pattern", "scope", "pointer", "part"),
    [
        ({"object": {"key": [{"prefix": "auto-"}]}}, "properties", "/pattern", "nested"),
        ({f"k{n}": ["v"] for n in range(6)}, "body", "/pattern", "5 keys"),
        ({"key": [f"value{n}" for n in range(151)]}, "properties", "/pattern", "combinations"),
        ({"k1": [f"v{n}" for n in range(100)], "k2": [f"v{n}" for n in range(51)]}, "properties", "/pattern", "combin"),
        (
            {"a": {"b": {"c": ["1", "2", "3", "4"]}}, "d": {"e": ["1", "2", "3"]}, "f": ["1", "2", "3"]},
            "body",
            "/pattern",
            "combinations",
        ),
        (
            {"$or": [{"m": ["1", "2", "3"]}, {"n": ["1", "2"]}],
             "d": {"s": ["1", "2"], "$or": [{"x": ["1"]}, {"y": ["1", "2", "3"]}]}},
            "body",
            "/pattern",
            "combinations",
        ),
        ({"key": "value"}, "body", "/pattern/key", "an object or a list"),
        ({"key": [["value"]]}, "body", "/pattern/key/0", "a text, a number"),
        ({"key": [{"wrong": True}]}, "body", "/pattern/key/0", "not an operator"),
        ({"key": [{"suffix": "a", "prefix": "b"}]}, "body", "/pattern/key/0", "one operator"),
        ({"key": [{"suffix": 100}]}, "body", "/pattern/key/0/suffix", "a text"),
        ({"key": [{"suffix": None}]}, "body", "/pattern/key/0/suffix", "a text"),
        ({"key": {"suffix": "value"}}, "body", "/pattern/key/suffix", "an object or a list"),
        ({"key": [{"suffix": []}]}, "body", "/pattern/key/0/suffix", "a text"),
        ({"key": [{"suffix": ["a", "b"]}]}, "body", "/pattern/key/0/suffix", "a text"),
        ({"key": [{"numeric": []}]}, "body", "/pattern/key/0/numeric", "must be ["),
        ({"key": [{"numeric": ["operator"]}]}, "body", "/pattern/key/0/numeric", "must be ["),
        ({"key": [{"numeric": [1, "<="]}]}, "body", "/pattern/key/0/numeric/1", "a number"),
        ({"key": [{"numeric": ["=", "000"]}]}, "body", "/pattern/key/0/numeric/1", "a number"),
        ({"key": [{"numeric": [">="]}]}, "body", "/pattern/key/0/numeric", "must be ["),
        ({"key": [{"numeric": ["<", 100, ">", 10]}]}, "body", "/pattern/key/0/numeric", "must be ["),
        ({"key": [{"numeric": [">=", 1, ">", 2]}]}, "body", "/pattern/key/0/numeric", "must be ["),
        ({"key": [{"numeric": [">", 3, "<", 1]}]}, "body", "/pattern/key/0/numeric", "less than"),
        ({"key": [{"numeric": [">", 20, "<="]}]}, "body", "/pattern/key/0/numeric", "must be ["),
        ({"key": [{"numeric": [">", 20, 30]}]}, "body", "/pattern/key/0/numeric", "must be ["),
        ({"key": [{"numeric": [">", "20", "<", "30"]}]}, "body", "/pattern/key/0/numeric/1", "a number"),
        ({"key": [{"numeric": [">", 20, "<", "30"]}]}, "body", "/pattern/key/0/numeric/3", "a number"),
        ({"key": [{"numeric": [">", 20, "<", 30, "<", 50]}]}, "body", "/pattern/key/0/numeric", "must be ["),
        ({"key": [{"exists": None}]}, "body", "/pattern/key/0/exists", "true or false"),
        ({"key": [{"exists": "no"}]}, "body", "/pattern/key/0/exists", "true or false"),
        ({"key": [{"anything-but": {"wrong": None}}]}, "body", "/pattern/key/0/anything-but", "not an operator"),
        ({"key": [{"anything-but": {"suffix": "test"}}]}, "body", "/pattern/key/0/anything-but", "not an operator"),
        ({"key": [{"anything-but": {"exists": False}}]}, "body", "/pattern/key/0/anything-but", "not an operator"),
        ({"key": [{"anything-but": {"prefix": False}}]}, "body", "/pattern/key/0/anything-but/prefix", "a text"),
        ({"key": [{"prefix": {"equals-ignore-case": "a"}}]}, "body", "/pattern/key/0/prefix", "a text"),
        ({"key": [1_000_000_001]}, "body", "/pattern/key/0", "from -1000000000"),
        ({"key": [{"numeric": [">", 0.123456]}]}, "body", "/pattern/key/0/numeric/1", "5 digits"),
    ],
)  # fmt: skip
def test_sns_refuses_what_sns_refuses(pattern: object, scope: str, pointer: str, part: str) -> None:
    assert part in refused(pattern, dialect="sns", scope=scope)[pointer]


def test_sns_takes_what_sns_takes() -> None:
    sources = ["aws.cloudwatch", "aws.events", "aws.test"]
    taken = {
        "source": sources,
        "$or": [
            {"metricName": ["CPUUtilization", "ReadLatency", "t1", "t2", "t3", "t4"]},
            {
                "metricType": ["MetricType", "TestType", "TestType2", "TestType3"],
                "$or": [{"metricId": [1234, 4321, 5678, 9012]}, {"spaceId": [1, 2, 3, 4, 5, 6, 7]}],
            },
        ],
    }
    compile_filter({"kind": "event_pattern", "pattern": taken, "dialect": "sns", "scope": "properties"})
    one_more = {**taken, "source": [*sources, "aws.test2"]}
    assert "combinations" in refused(one_more, dialect="sns", scope="properties")["/pattern"]
    assert says({"key": [{"wildcard": "*/src/*.js"}]}, b"", {"key": "a/src/b.js"}, dialect="sns", scope="properties")
    for leaf in ({"prefix": "test-"}, {"wildcard": "test-*"}, ["test", "test2"], "test"):
        assert says({"key": [{"anything-but": leaf}]}, b"", {"key": "other"}, dialect="sns", scope="properties")
    assert "/scope" in refused({"a": ["b"]}, dialect="sns", scope="envelope")


def test_the_allowed_operators_are_named_where_another_is_refused() -> None:
    assert "use one of prefix, suffix" in refused({"a": [{"prefx": "x"}]})["/pattern/a/0"]
    but = refused({"a": [{"anything-but": {"suffix": "x"}}]}, dialect="sns")["/pattern/a/0/anything-but"]
    assert but == "anything-but suffix is not an operator here; use one of anything-but prefix, anything-but wildcard"


def test_sns_counts_an_or_that_is_a_field_among_its_keys() -> None:
    pattern = {"$or": ["x"], **{f"k{n}": ["v"] for n in range(4)}}
    compile_filter({"kind": "event_pattern", "pattern": pattern, "dialect": "sns"})
    assert "5 keys" in refused({**pattern, "k4": ["v"]}, dialect="sns")["/pattern"]


def test_every_fault_of_a_pattern_is_named_with_its_pointer() -> None:
    pattern = {"a": [], "b/c": [{"prefix": 1}, {"cidr": "x"}], "d": {"e": "f"}, "g": [{"wildcard": "a**"}], "h": {}}
    assert refused(pattern) == {
        "/pattern/a": "must not be empty",
        "/pattern/b~1c/0/prefix": "must be a text",
        "/pattern/b~1c/1/cidr": "must be an address, a slash and a number of bits, e.g. 10.0.0.0/8",
        "/pattern/d/e": "must be an object or a list of values",
        "/pattern/g/0/wildcard": "character 2: two * must not follow each other",
        "/pattern/h": "must not be empty",
    }
    assert refused({"a": [1]}, dialect="aws", scope="all", more=1).keys() == {"/dialect", "/scope", "/more"}
    assert refused(None) == {"/pattern": "must be an object"}


@pytest.mark.parametrize(
    ("taken", "too_much", "part"),
    [
        ({"a": ["x" * 16_374]}, {"a": ["x" * 16_378]}, "16384 characters"),
        ({"a": list(range(1_000))}, {"a": list(range(1_001))}, "1000 values"),
        ({"a" * 1_024: [1]}, {"a" * 1_025: [1]}, "1024 characters"),
        ({f"f{n}": [1] for n in range(256)}, {f"f{n}": [1] for n in range(257)}, "256 fields"),
        ({"a": [{"wildcard": "*a*"}] * 32}, {"a": [{"wildcard": "*a*"}] * 33}, "32 wildcards"),
    ],
)
def test_as_much_as_is_allowed_is_taken_and_one_more_is_refused(taken: object, too_much: object, part: str) -> None:
    compile_filter({"kind": "event_pattern", "pattern": taken})
    assert any(part in detail for detail in refused(too_much).values())


def test_alternatives_and_levels_are_bounded() -> None:
    def ors(count: int) -> dict[str, Any]:
        return {f"o{n}": {"$or": [{f"x{k}": [1]} for k in range(10)]} for n in range(count)}

    compile_filter({"kind": "event_pattern", "pattern": ors(3)})
    assert any("combinations" in detail for detail in refused(ors(4)).values())
    deep: dict[str, Any] = {"a": [1]}
    for _ in range(49):
        deep = {"a": deep}
    compile_filter({"kind": "event_pattern", "pattern": deep})
    assert any("50 levels" in detail for detail in refused({"a": deep}).values())


@pytest.mark.parametrize("prefix", ["a", "z"])
def test_the_fields_of_all_alternatives_are_bounded_in_every_order_of_names(prefix: str) -> None:
    ors = {f"o{n}": {"$or": [{f"x{k}": [1]} for k in range(10)]} for n in range(2)}

    def pattern(fields: int) -> dict[str, Any]:
        return {**ors, **{f"{prefix}{n}": [1] for n in range(fields)}}

    for taken in (pattern(98), dict(reversed(pattern(98).items()))):
        compile_filter({"kind": "event_pattern", "pattern": taken})
    for too_many in (pattern(99), dict(reversed(pattern(99).items()))):
        assert any("of 10000 fields" in detail for detail in refused(too_many).values())


@pytest.mark.parametrize("leaves", [list, lambda values: [{"anything-but": [*values]}]])
def test_the_values_of_all_alternatives_are_bounded_since_the_index_stores_each(leaves: Any) -> None:
    def pattern(alternatives: int, values: int) -> dict[str, Any]:
        return {"z": {"$or": [{f"x{n}": [1]} for n in range(alternatives)]}, "a": leaves(range(values))}

    compile_filter({"kind": "event_pattern", "pattern": pattern(40, 499)})
    assert any("20000 values" in detail for detail in refused(pattern(40, 500)).values())


def test_what_is_decided_otherwise_than_the_engine() -> None:
    decided = {
        "a path that is asked twice is refused: the engine drops the first": (
            ('{"a": [1], "$or": [{"a": [2]}, {"b": [1]}]}', "{}", "refused"),
            ('{"a.b": [1], "a": {"b": [2]}}', "{}", "refused"),
        ),
        "a name that is empty is refused": (('{"": [1]}', '{"": 1}', "refused"),),
        "a pattern's number is a double": (('{"a": [0.30000000000000000001]}', '{"a": 0.3}', "true"),),
        "characters beyond the first plane are themselves where case is ignored": (
            ('{"a": [{"equals-ignore-case": "😀"}]}', '{"a": "😀"}', "true"),
            ('{"a": [{"equals-ignore-case": "😀"}]}', '{"a": "??"}', "false"),
        ),
        "a number is no address": (('{"a": [{"cidr": "0.0.0.0/0"}]}', '{"a": 100000}', "false"),),
        "an empty list after anything-but is refused": (
            ('{"a": [1, {"anything-but": {"prefix": []}}]}', "{}", "refused"),
        ),
        "a repeated name makes an event unreadable": (('{"a": [1]}', '{"a": 1, "a": 2}', "false"),),
    }
    for why, pairs in decided.items():
        for pattern, body, verdict in pairs:
            assert our_verdict(pattern, body) == verdict, why


def test_each_character_stands_for_its_lower_and_its_upper_case_alone() -> None:
    for character in map(chr, range(0x80, 0x10000)):
        cases = {character.lower(), character.upper()}
        if len(cases) == 1:
            continue
        for seen in (*cases, character, character.casefold(), "s", "K", "ς"):
            for leaf, text in (
                (IgnoringCase(f"é{character}"), f"É{seen}"),
                (IgnoringCase(character, "prefix"), f"{seen}é"),
                (IgnoringCase(character, "suffix"), f"é{seen}"),
            ):
                assert leaf.holds(text) is (seen in cases), (leaf, text)
    assert IgnoringCase("ΟΔΟΣ").holds("οδοσ")
    assert not IgnoringCase("ΟΔΟΣ").holds("οδος")
    assert not IgnoringCase("k").holds("\N{KELVIN SIGN}")


def test_what_would_take_long_fails_before_it_is_asked() -> None:
    def asked(leaf: object, value: str, times: int) -> object:
        pattern = leaf if isinstance(leaf, dict) and "$or" in leaf else {"a": [leaf]}
        try:
            return says(pattern, {"a": [value] * times})
        except FilterEvaluationError as error:
            return error.message

    for leaf, value, most in (
        ({"$or": [{"a": [f"x{n}"]} for n in range(100)]}, "y", 333),
        ({"cidr": "10.0.0.0/8"}, "11.0.0.1", 2_173),
        ({"equals-ignore-case": "é" * 92}, "é", 1_000),
        ({"equals-ignore-case": "ß" * 64}, "ß", 500),
    ):
        assert asked(leaf, value, most) is False
        assert asked(leaf, value, most + 1) == TOO_MUCH


def test_an_explanation_looks_values_up_like_the_evaluation() -> None:
    pattern = {"a": [f"x{n}" for n in range(900)], "$or": [{"b": [n]} for n in range(20)]}
    filter = compile_filter({"kind": "event_pattern", "pattern": pattern})
    began = time.thread_time()
    tree = filter.explain(message({"a": [f"y{n}" for n in range(9_000)] + ["x7"], "b": 3}))
    assert time.thread_time() - began < 2
    assert tree.value is True


def test_explain_shows_each_comparison_of_a_list_with_its_own_verdict_although_some_are_equal() -> None:
    listed = ["x", {"exactly": "x"}, {"prefix": "y"}, {"numeric": ["=", 1]}, 1, {"suffix": "q"}]
    tree = compile_filter({"kind": "event_pattern", "pattern": {"a": listed}}).explain(message({"a": "yes"}))
    assert [(each.text, each.value) for each in tree.children[0].children] == [
        ('"x"', False), ('{"prefix": "y"}', True), ('{"numeric": ["=", 1]}', False), ('{"suffix": "q"}', False),
    ]  # fmt: skip


def test_explain_shows_what_was_compared_and_which_element_failed() -> None:
    pattern = {"items": {"sku": ["A1"], "qty": [{"numeric": [">", 5]}]}, "user": {"name": [{"prefix": "Ad"}, "Bo"]}}
    body = {"items": [{"sku": "A1", "qty": 2}, {"sku": "B2", "qty": 9}], "user": {"name": "Cy"}}
    tree = compile_filter({"kind": "event_pattern", "pattern": pattern}).explain(message(body))

    parts = {part.text: part for part in tree.children}
    assert tree.verdict == "not_matched"
    assert parts["items.sku"].note == 'items.sku is "A1" in element 0, "B2" in element 1'
    assert [(leaf.text, leaf.value, leaf.note) for leaf in parts["items.qty"].children] == [
        ('{"numeric": [">", 5]}', True, "met in element 1")
    ]
    assert [(leaf.text, leaf.value) for leaf in parts["user.name"].children] == [
        ('{"prefix": "Ad"}', False),
        ('"Bo"', False),
    ]

    tree = compile_filter({"kind": "event_pattern", "pattern": {"items": pattern["items"]}}).explain(message(body))
    assert (tree.value, tree.note) == (False, "each condition is met, but not in the same array element")


@pytest.mark.parametrize(
    ("wanted", "verdict"), [({}, False), ({"a": [2]}, True), ({"a": [1]}, False), ({"x": [{"exists": False}, 1]}, True)]
)
def test_explain_shows_a_field_that_an_element_lacks_as_absent_only_beside_a_chosen_element(
    wanted: dict[str, object], verdict: bool
) -> None:
    pattern = {"items": {"x": [{"exists": False}], **wanted}}
    body = {"items": [{"x": 1, "a": 1}, {"a": 2}]}
    tree = compile_filter({"kind": "event_pattern", "pattern": pattern}).explain(message(body))
    values = {each.text: each.value for each in tree.children}
    assert (tree.value, values["items.x"]) == (verdict, verdict or "a" in wanted)


def test_a_pattern_with_a_field_of_the_name_or_is_taken_with_a_warning() -> None:
    written = {"$or": [{"prefix": "a"}, {"prefix": "b"}]}
    assert "field name" in compile_filter({"kind": "event_pattern", "pattern": written}).warnings[0]


def test_all_of_several_tags() -> None:
    value = {"kind": "tags", "tags": ["t1", "t2"], "match": "all"}
    every = compile_filter(value)
    assert every.as_json() == value
    assert compile_filter({**value, "match": "any"}).as_json() == {"kind": "tags", "tags": ["t1", "t2"]}
    assert compile_filter({**value, "tags": ["t1"]}).as_json() == {"kind": "tags", "tags": ["t1"]}
    for tags, matched in ((("t1",), False), (("t2", "t1", "t3"), True), ((), False)):
        seen = SimpleNamespace(tags=tags, routing_key=None, properties={}, body=b"")
        assert (every.evaluate(seen), every.explain(seen).value) == (matched, matched)
    with pytest.raises(InvalidFilterError, match='must be "any" or "all"'):
        compile_filter({**value, "match": "most"})
