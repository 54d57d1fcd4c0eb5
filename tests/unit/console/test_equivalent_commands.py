"""The command beside a form does what the form does: both come from one body."""

import json
import shlex
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tagcast_cli.push_options import endpoint_of
from tagcast_client import Client
from tagcast_client.changing import patch_of
from tagcast_client.filters import with_defaults
from tagcast_client.operation import Json
from tagcast_client.setting import Setting
from tagcast_client.settings import SUBSCRIPTION_SETTINGS, TOPIC_SETTINGS

from local.console.commands import HIDDEN, PARTS, command_of, filter_options
from tests.clients.in_memory_api import InMemoryApi
from tests.unit.console.commands import exit_code
from tests.unit.console.test_editing import command, fields_of
from tests.unit.console.visitor import API, Visitor

HOOK = "https://example.com/hook"


class Recorder(httpx.BaseTransport):
    """Answers each request with the same subscription, and remembers the body of the last change."""

    def __init__(self) -> None:
        client = Client(API, transport=InMemoryApi())
        client.create_topic("t")
        client.create_subscription("t", "s", HOOK, filter={"kind": "tags", "tags": ["old"], "match": "all"})
        self.present = client.get_subscription("t", "s")
        self._answer = client.request("GET", "/topics/t/subscriptions/s").text
        self.body: Json = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method != "GET":
            self.body = json.loads(request.read())
        return httpx.Response(200, text=self._answer, headers={"content-type": "application/json"})


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8).filter(
    lambda text: not text.startswith("-") and text == text.strip()
)
NUMBER = st.integers(0, 9_999)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
OBJECT = st.dictionaries(TEXT, JSON.filter(lambda value: value is not None), min_size=1, max_size=2)


def some(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """Objects with any of these keys, but one at least."""
    return st.fixed_dictionaries({}, optional=optional).filter(bool)


def described(kind: str, wanted: dict[str, st.SearchStrategy[Any]], **more: st.SearchStrategy[Any]) -> Any:
    return st.fixed_dictionaries({"kind": st.just(kind), **wanted}, optional=more)


FILTERS: st.SearchStrategy[Json] = st.one_of(
    described("tags", {"tags": st.lists(TEXT, max_size=3)}, match=st.sampled_from(["any", "all", "some"])),
    described("tag_expression", {}, expression=TEXT),
    described("routing_key", {"patterns": st.lists(TEXT, max_size=3)}),
    described("sql92", {"expression": TEXT}, dialect=st.sampled_from(["strict", "rocketmq"])),
    described(
        "event_pattern",
        {"pattern": OBJECT},
        dialect=st.sampled_from(["eventbridge", "sns"]),
        scope=st.sampled_from(["body", "properties", "envelope"]),
    ),
    described("function", {"function": TEXT}, on_error=st.sampled_from(["drop", "block"]), timeout_seconds=NUMBER),
    described("tags", {"tags": st.lists(NUMBER, min_size=1, max_size=2)}),
    OBJECT,
)
ENDPOINTS: st.SearchStrategy[Json] = st.one_of(
    st.sampled_from([HOOK, "http://127.0.0.1:9/a b", ""]).map(lambda url: endpoint_of(url, None, None)),
    st.sampled_from(["arn:aws:sqs:eu-west-1:1:q", "https://sqs/q"]).map(lambda queue: endpoint_of(None, queue, None)),
    st.just(endpoint_of(None, None, "rate")),
    st.just(endpoint_of(None, None, None, is_pulled=True)),
)
RETRIES = {
    "strategy": st.sampled_from(["BACKOFF_RETRY", "EXPONENTIAL_DECAY_RETRY", "INDEPENDENT_RETRY"]),
    "max_retries": NUMBER | st.just("life"),
    "interval_seconds": NUMBER,
    "max_interval_seconds": NUMBER,
}
BATCHES = {"max_messages": NUMBER, "max_bytes": NUMBER}
HEADERS = st.dictionaries(st.sampled_from(["x-a", "x-b", "authorization"]), TEXT, min_size=1)
SECRETS = st.sampled_from(["generate", "whsec_QUJD"])


def single(setting: Setting) -> st.SearchStrategy[Any]:
    """The values of a setting that is one number, word or text."""
    if setting.choices:
        return st.sampled_from(setting.choices)
    floats = st.floats(0, 1_000, allow_nan=False)
    return {"integer": NUMBER, "number": floats, "string": TEXT, "boolean": st.just(True)}[setting.type]


def singles(settings: tuple[Setting, ...]) -> dict[str, st.SearchStrategy[Any]]:
    return {each.name: single(each) for each in settings if each.type != "object" and not each.is_write_only}


NEW = st.fixed_dictionaries(
    {"endpoint": ENDPOINTS},
    optional={
        "filter": FILTERS,
        "retry": some(**RETRIES),
        "batch": some(**BATCHES),
        "headers": HEADERS,
        "secret": SECRETS,
        **singles(SUBSCRIPTION_SETTINGS),
    },
)
CHANGED = some(
    endpoint=ENDPOINTS,
    retry=st.none() | some(**{name: st.none() | each for name, each in RETRIES.items() if name != "strategy"}),
    batch=st.none() | some(**{name: st.none() | each for name, each in BATCHES.items()}),
    headers=st.dictionaries(st.sampled_from(["x-a", "x-b"]), st.none() | TEXT, min_size=1),
    secret=SECRETS,
    **{name: st.none() | each for name, each in singles(SUBSCRIPTION_SETTINGS).items()},
) | some(retry=some(**RETRIES))


def hidden(body: Json) -> Json:
    """The body with the sign that the command has in place of a secret, and with the defaults of the filter."""
    shown = dict(body)
    if shown.get("secret") not in (None, "generate"):
        shown["secret"] = HIDDEN
    if shown.get("headers"):
        shown["headers"] = {name: value and HIDDEN for name, value in shown["headers"].items()}
    if isinstance(shown.get("filter"), dict):
        shown["filter"] = (
            with_defaults(shown["filter"]) if isinstance(shown["filter"].get("kind"), str) else shown["filter"]
        )
    return shown


def sayable(changes: Json) -> tuple[Json, set[str]]:
    """Return the changes for which the command has options, and the pointers of the others."""
    gone = {f"/{part}/{name}" for part in PARTS for name, it in (changes.get(part) or {}).items() if it is None}
    kept = {
        part: {name: it for name, it in changes[part].items() if it is not None} for part in PARTS if changes.get(part)
    }
    return {name: value for name, value in (changes | kept).items() if value != {}}, gone


RECORDER = Recorder()


def sends(line: str) -> bool:
    """Whether a command succeeds at the recorder. It prints JSON, because tables take longer than all the rest."""
    return exit_code(RECORDER, line.replace("tagcast ", "tagcast --json ", 1)) == 0


@given(NEW)
def test_the_command_of_a_new_subscription_sends_the_same_body(body: Json) -> None:
    said = command_of(["subscribe", "t", "s"], body, SUBSCRIPTION_SETTINGS)

    assert (sends(said.line), said.hints) == (True, ())
    assert hidden(RECORDER.body) == hidden(body)


@given(CHANGED)
def test_the_command_of_an_update_sends_the_same_patch_and_names_what_it_cannot_send(changes: Json) -> None:
    said = command_of(["subscription", "update", "t", "s"], changes, SUBSCRIPTION_SETTINGS)
    wanted, gone = sayable(changes)

    assert {pointer for pointer, _ in said.hints} == gone
    assert bool(said.line) == bool(wanted)
    if wanted:
        assert sends(said.line)
        assert hidden(RECORDER.body) == hidden(patch_of(RECORDER.present, wanted))


@given(some(**{name: st.none() | each for name, each in singles(TOPIC_SETTINGS).items()}))
def test_the_command_of_a_topic_sends_the_same_body(changes: Json) -> None:
    assert sends(command_of(["topic", "update", "t"], changes, TOPIC_SETTINGS).line)
    assert RECORDER.body == changes
    settings = {name: value for name, value in changes.items() if value is not None}
    assert sends(command_of(["topic", "create", "t"], settings, TOPIC_SETTINGS).line)
    assert RECORDER.body == settings


@settings(max_examples=400)
@given(st.none() | FILTERS)
def test_the_command_of_a_filter_sends_the_same_filter(filter: Any) -> None:
    assert sends(shlex.join(["tagcast", "filter", "set", "t", "s", *filter_options(filter)]))
    assert hidden(RECORDER.body) == hidden({"filter": filter})


BACKOFF, DECAY, INDEPENDENT = "BACKOFF_RETRY", "EXPONENTIAL_DECAY_RETRY", "INDEPENDENT_RETRY"
SQL, ALL = (
    '{"kind":"sql92","expression":"a = 1","dialect":"rocketmq"}',
    '{"kind":"tags","tags":["a","b"],"match":"all"}',
)


@pytest.mark.parametrize(
    "said",
    [
        {"kind": "json", "text": ALL},
        {"kind": "json", "text": SQL},
        {"kind": "json", "text": '{"kind":"function","function":"f","on_error":"block","timeout_seconds":7}'},
        {"kind": "json", "text": "{}"},
        {"kind": "sql92", "text": "a = 1", "dialect": "eventbridge"},
        {"kind": "event_pattern", "text": '{"a": ["é"]}', "scope": "properties"},
        {"strategy": BACKOFF, "max_retries": "5", "interval_seconds": "30s", "max_interval_seconds": "60"},
        {"strategy": BACKOFF, "max_retries": "LIFE", "max_interval_seconds": "1m"},
        {"strategy": INDEPENDENT, "interval_seconds": "30", "max_interval_seconds": "60"},
        {"strategy": INDEPENDENT, "ordered": "yes"},
        {"protocol": "pull", "headers": "x-a: b", "secret": "generate", "start_from": "earliest", "ordered": "yes"},
        {"target": ""},
        {"timeout_seconds": "7s", "max_per_second": "123.4567", "max_messages": "10", "max_bytes": "4096"},
        {"timeout_seconds": "99"},
        {
            "dead_letter_topic": "dead",
            "dead_letter_expired": "yes",
            "verification": "none",
            "content_format": "cmq_json",
        },
    ],
)
def test_a_form_and_its_command_make_the_same_subscription_or_none(visitor: Visitor, said: dict[str, str]) -> None:
    page = "/topics/orders/subscribe"
    fields = {**fields_of(visitor.get(page).text), "target": HOOK, **said}
    line = command(visitor.act(page, {**fields, "name": "typed"}).text)

    sent = visitor.act(page, {**fields, "name": "formed", "do": "yes"})

    assert (exit_code(visitor.world, line) == 0) == (sent.status != 422), line
    if sent.status != 422:
        assert settings_of(visitor, "typed") == settings_of(visitor, "formed")


CALM: Json = {"retry": {"strategy": INDEPENDENT, "max_retries": 5, "max_interval_seconds": 60}}
ORDERED: Json = {"retry": {"strategy": BACKOFF, "max_retries": 7, "interval_seconds": 9}}
BATCHED: Json = {"batch": {"max_messages": 10, "max_bytes": 4_096}}


@pytest.mark.parametrize(
    ("present", "said", "wanted"),
    [
        (CALM, {"strategy": DECAY}, {"retry": {**CALM["retry"], "strategy": DECAY}}),
        (
            ORDERED,
            {"strategy": INDEPENDENT},
            {"retry": {**CALM["retry"], "max_retries": 7, "max_interval_seconds": 512}},
        ),
        (CALM, {"strategy": BACKOFF, "max_retries": "life"}, {"ordered": True}),
        (CALM, {"ordered": "yes"}, {"ordered": True}),
        (CALM, {"max_retries": "6"}, {"retry": {**CALM["retry"], "max_retries": 6}}),
        (ORDERED, {"max_retries": "LIFE"}, {"ordered": True}),
        ({"ordered": True}, {"max_retries": "3"}, {"retry": {"strategy": BACKOFF, "max_retries": 3}}),
        ({"ordered": True}, {"ordered": ""}, None),
        (BATCHED, {"max_messages": "", "max_bytes": ""}, {"batch": None}),
        (BATCHED, {"max_bytes": "2048"}, {"batch": {"max_messages": 10, "max_bytes": 2_048}}),
        ({}, {"max_bytes": "2048"}, None),
        ({}, {"target": ""}, None),
        ({}, {"protocol": "sqs", "target": "arn:aws:sqs:eu-west-1:123456789012:q"}, {"timeout_seconds": 15}),
        ({"headers": {"x-a": "1", "x-b": "2"}}, {"headers": "x-a:"}, {}),
        ({"max_per_second": 2.5, "timeout_seconds": 3}, {"max_per_second": "", "timeout_seconds": ""}, {}),
    ],
)
def test_a_form_and_its_command_change_the_same(
    visitor: Visitor, present: Json, said: dict[str, str], wanted: Json | None
) -> None:
    for name in ("formed", "typed"):
        visitor.api.create_subscription("orders", name, HOOK, **present)
    page = "/topics/orders/subscriptions/{}/edit"
    fields = {**fields_of(visitor.get(page.format("formed")).text), **said}
    before, line = settings_of(visitor, "typed"), command(visitor.act(page.format("typed"), fields).text)

    sent = visitor.act(page.format("formed"), {**fields, "do": "yes"})

    assert (sent.status, exit_code(visitor.world, line)) == ((422, 1) if wanted is None else (303, 0)), line
    after = settings_of(visitor, "formed")
    assert after == settings_of(visitor, "typed")
    assert (after == before) == (wanted is None or "headers" in present)
    assert {name: after.get(name) for name in wanted or ()} == (wanted or {})


def settings_of(visitor: Visitor, name: str) -> Json:
    answer = visitor.api.request("GET", f"/topics/orders/subscriptions/{name}").json
    return {key: answer[key] for key in answer.keys() & {each.name for each in SUBSCRIPTION_SETTINGS}}


@pytest.mark.parametrize(
    ("present", "said", "pointers"),
    [
        (CALM, {"max_retries": "", "max_interval_seconds": ""}, ["/retry/max_retries", "/retry/max_interval_seconds"]),
        (BATCHED, {"max_bytes": ""}, ["/batch/max_bytes"]),
        (CALM, {"interval_seconds": "soon"}, ["/retry/interval_seconds"]),
        (CALM, {"headers": "x-a: 1\nx-a: 2"}, ["/headers"]),
        (CALM, {"max_per_second": "inf"}, ["/max_per_second"]),
    ],
)
def test_what_no_command_says_is_named_instead(
    visitor: Visitor, present: Json, said: dict[str, str], pointers: list[str]
) -> None:
    visitor.api.create_subscription("orders", "s", HOOK, **present)
    page = "/topics/orders/subscriptions/s/edit"
    shown = visitor.act(page, {**fields_of(visitor.get(page).text), **said}).text
    beside = shown[shown.index('id="command"') :]

    assert [beside.count(f"<code>{pointer}</code>") for pointer in pointers] == [1] * len(pointers)
    assert "<pre" not in beside


def test_a_batch_without_its_bytes_gets_their_default(visitor: Visitor) -> None:
    visitor.api.create_subscription("orders", "s", HOOK, **BATCHED)
    page = "/topics/orders/subscriptions/s/edit"

    assert visitor.act(page, {**fields_of(visitor.get(page).text), "max_bytes": "", "do": "yes"}).status == 303
    batch = visitor.api.get_subscription("orders", "s").batch
    assert batch is not None
    assert (batch.max_messages, batch.max_bytes) == (10, 262_144)
