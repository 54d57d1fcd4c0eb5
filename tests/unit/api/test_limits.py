"""For every limit of a request: as much as it allows is taken, and one more is refused.

Which limits there are is read from the modules that hold them; one that nobody tries, or excuses, is an error.
"""

import base64
import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from tagcast import model, strict_json, subscription_settings, topic_settings
from tagcast.filters import function_filter, routing_key_filter, tag_filters
from tagcast.filters.sql92 import dialect
from tagcast.pushing import retry_delay
from tagcast.registry import subscriptions
from tagcast.rows import tail
from tagcast.strict_json import MalformedError, parse
from tagcast_aws.api import limits
from tagcast_aws.api.http.body import read
from tagcast_aws.api.http.paging import decode_cursor
from tagcast_aws.api.subscriptions.client_certificate import ClientCertificateBody
from tagcast_aws.api.subscriptions.lane import SkipBody
from tagcast_aws.api.subscriptions.lane_acts import LanesBody
from tagcast_aws.cmq import limits as of_cmq
from tagcast_aws.cmq.errors import CmqFault

from tests.cmq.asking import Asking, event_of, pair_of
from tests.fakes.handlers import answered
from tests.fakes.world import FakeWorld

T, S = "/topics/t", "/topics/t/subscriptions/s"
G = "/topics/t/subscriptions/g"
HOOK: dict[str, Any] = {"endpoint": {"protocol": "https", "url": "https://example.com/"}}
QUEUE: dict[str, Any] = {"endpoint": {"protocol": "sqs", "arn": "arn:aws:sqs:us-east-1:123456789012:q"}}
QUOTED = "'1',"
Taken = Callable[[Any], bool]
"""Says whether so many, so much or so long is taken."""


def ask(method: str, path: str, body: Callable[[Any], Any] | None = None) -> Taken:
    """Return what asks the API; a number of the query stands for ``{n}`` in *path*."""

    def taken(n: Any) -> bool:
        world = FakeWorld().world
        for made, wanted in ((T, {}), (S, HOOK), (G, {"endpoint": {"protocol": "pull"}})):
            assert answered(world, "PUT", made, json.dumps(wanted))["statusCode"] == 201
        value = None if body is None else body(n)
        text = value if value is None or isinstance(value, str) else json.dumps(value)
        status = answered(world, method, path.replace("{n}", str(n)), text)["statusCode"]
        assert status in (200, 201, 202, 204, 400, 413, 422), status
        return bool(status < 400)

    return taken


def message(make: Callable[[Any], dict[str, Any]]) -> Taken:
    return ask("POST", f"{T}/messages", lambda n: {"body": "x"} | make(n))


def subscription(make: Callable[[Any], dict[str, Any]], endpoint: dict[str, Any] = HOOK) -> Taken:
    return ask("PUT", S, lambda n: endpoint | make(n))


def sieve(make: Callable[[Any], dict[str, Any]]) -> Taken:
    return ask("PUT", f"{S}/filter", lambda n: {"filter": make(n)})


def topic(name: str) -> Taken:
    return ask("PUT", T, lambda n: {name: n})


def retry(strategy: str, name: str) -> Taken:
    return subscription(lambda n: {"retry": {"strategy": strategy, name: n}})


def batch(name: str, endpoint: dict[str, Any] = HOOK) -> Taken:
    return subscription(lambda n: {"batch": {"max_messages": 2, name: n}}, endpoint)


def handles(make: Callable[[Any], list[str]]) -> Taken:
    return ask("POST", f"{G}/ack", lambda n: {"receipt_handles": make(n)})


def certificate(field: str) -> Taken:
    """A certificate of that length is none, but that is found by who looks into it."""
    given = {"certificate": "x", "private_key": "x"}
    return lambda n: read(ClientCertificateBody, given | {field: "x" * n})[1] == []


def parsed(make: Callable[[Any], str]) -> Taken:
    def taken(n: Any) -> bool:
        try:
            parse(make(n).encode())
        except MalformedError:
            return False
        return True

    return taken


def properties(total: int) -> dict[str, str]:
    """Properties of so many bytes."""
    whole = {f"p{n:02}": "x" * 1_021 for n in range(total // 1_024)}
    rest = total % 1_024
    return whole | ({"r": "x" * (rest - 1)} if rest else {})


def header_lines(total: int) -> dict[str, str]:
    """Headers of so many bytes, with four around each."""
    half = total // 2
    return {"x-a": "x" * (half - 7), "x-b": "x" * (total - half - 7)}


def secret(n: int) -> dict[str, Any]:
    return {"secret": f"whsec_{base64.b64encode(b'x' * n).decode()}"}


OF_REQUESTS: dict[str, Taken] = {
    "REQUEST_BYTES_MAX": ask("POST", "/filters/test", lambda n: '{"message": {}}'.ljust(n)),
    "BATCH_MAX": ask("POST", f"{T}/messages/batch", lambda n: {"messages": [{"body": "x"}] * n}),
    "JSON_DEPTH_MAX": parsed(lambda n: "[" * n + "]" * n),
    "JSON_VALUES_MAX": parsed(lambda n: f"[{','.join('1' * n)}]"),
    "PAGE_MAX": ask("GET", "/topics?limit={n}"),
    # A text of an odd length is no base64, however short it is.
    "CURSOR_LENGTH_MAX": lambda n: decode_cursor("A" * (n + n % 2)) is not None,
    "TAGS_MAX": message(lambda n: {"tags": [f"t{place}" for place in range(n)]}),
    "TAGS_SENT_MAX": message(lambda n: {"tags": ["t"] * n}),
    "TAG_LENGTH_MAX": message(lambda n: {"tags": ["t" * n]}),
    "ROUTING_KEY_BYTES_MAX": message(lambda n: {"routing_key": "k" * n}),
    "ROUTING_KEY_DOTS_MAX": message(lambda n: {"routing_key": ".".join("k" * (n + 1))}),
    "PROPERTIES_MAX": message(lambda n: {"properties": {f"p{place}": "" for place in range(n)}}),
    "PROPERTIES_BYTES_MAX": message(lambda n: {"properties": properties(n)}),
    "PROPERTY_LENGTH_MAX": message(lambda n: {"properties": {"p": "x" * n}}),
    "ORDERING_KEY_LENGTH_MAX": message(lambda n: {"ordering_key": "k" * n}),
    "CONTENT_TYPE_LENGTH_MAX": message(lambda n: {"content_type": "a/".ljust(n, "b")}),
    "PULLED_MAX": ask("POST", f"{G}/pull", lambda n: {"max_messages": n}),
    "PULL_WAIT_S_MAX": ask("POST", f"{G}/pull", lambda n: {"wait_seconds": n}),
    "VISIBILITY_TIMEOUT_S_MIN": ask("POST", f"{G}/pull", lambda n: {"visibility_timeout_seconds": n}),
    "VISIBILITY_TIMEOUT_S_MAX": ask("POST", f"{G}/pull", lambda n: {"visibility_timeout_seconds": n}),
    "TAIL_WAIT_S_MAX": ask("GET", f"{T}/tail?wait_seconds={{n}}"),
    "EVENTS_MAX": ask("GET", f"{T}/tail?max_events={{n}}"),
    "HANDLES_MAX": handles(lambda n: ["h"] * n),
    "HANDLE_LENGTH_MAX": handles(lambda n: ["h" * n]),
    "MEMBER_VERSION_LENGTH_MAX": ask("PUT", f"{G}/members/c", lambda n: {"filter": None, "member_version": "v" * n}),
    "SILENCE_S_MIN": ask("PUT", f"{T}/subscriptions/new/members/c", lambda n: {"filter": None, "silence_seconds": n}),
    "SILENCE_S_MAX": ask("PUT", f"{T}/subscriptions/new/members/c", lambda n: {"filter": None, "silence_seconds": n}),
    "URL_LENGTH_MAX": subscription(
        lambda n: {"endpoint": {"protocol": "https", "url": "https://example.com/".ljust(n, "a")}}
    ),
    "TIMEOUT_S_MIN": subscription(lambda n: {"timeout_seconds": n}),
    "TIMEOUT_S_MAX": subscription(lambda n: {"timeout_seconds": n}),
    "BACKOFF_RETRIES_MAX": retry("BACKOFF_RETRY", "max_retries"),
    "BACKOFF_INTERVAL_S_MAX": retry("BACKOFF_RETRY", "interval_seconds"),
    "DECAY_RETRIES_MAX": retry("EXPONENTIAL_DECAY_RETRY", "max_retries"),
    "DECAY_INTERVAL_S_MAX": retry("EXPONENTIAL_DECAY_RETRY", "max_interval_seconds"),
    "RATE_MIN": subscription(lambda n: {"max_per_second": n}),
    "RATE_MAX": subscription(lambda n: {"max_per_second": n}),
    "BATCHED_MIN": batch("max_messages"),
    "BATCHED_MAX": batch("max_messages"),
    "BATCHED_BYTES_MIN": batch("max_bytes"),
    "BATCHED_BYTES_MAX": batch("max_bytes"),
    "QUEUE_BATCH_MAX": batch("max_messages", QUEUE),
    "PUSH_HEADERS_MAX": subscription(lambda n: {"headers": {f"x-{place}": "v" for place in range(n)}}),
    "PUSH_HEADERS_BYTES_MAX": subscription(lambda n: {"headers": header_lines(n)}),
    "PUSH_HEADER_LENGTH_MAX": subscription(lambda n: {"headers": {"x-a": "v" * n}}),
    "CERTIFICATE_LENGTH_MAX": certificate("certificate"),
    "PRIVATE_KEY_LENGTH_MAX": certificate("private_key"),
    "SECRET_BYTES_MIN": subscription(secret),
    "SECRET_BYTES_MAX": subscription(secret),
    "REASON_LENGTH_MAX": lambda n: read(SkipBody, {"reason": "r" * n})[1] == [],
    "LANE_TEXT_LENGTH_MAX": lambda n: read(LanesBody, {"text": "t" * n})[1] == [],
    "GRACE_S_MAX": ask("POST", f"{S}/secret/rotate", lambda n: {"grace_seconds": n}),
    "RETENTION_S_MIN": topic("retention_seconds"),
    "RETENTION_S_MAX": topic("retention_seconds"),
    "BODY_BYTES_MAX": topic("max_message_bytes"),
    "FILTER_TAGS_MAX": sieve(lambda n: {"kind": "tags", "tags": [f"t{place}" for place in range(n)]}),
    "TAG_CHARACTERS_MAX": sieve(lambda n: {"kind": "tags", "tags": ["t" * n]}),
    "EXPRESSION_TAGS_MAX": sieve(
        lambda n: {"kind": "tag_expression", "expression": "||".join(f"t{place}" for place in range(n))}
    ),
    "EXPRESSION_CHARACTERS_MAX": sieve(lambda n: {"kind": "tag_expression", "expression": "t".ljust(n)}),
    "FILTER_PATTERNS_MAX": sieve(lambda n: {"kind": "routing_key", "patterns": [f"p{place}" for place in range(n)]}),
    "KEY_BYTES_MAX": sieve(lambda n: {"kind": "routing_key", "patterns": ["p" * n]}),
    "KEY_DOTS_MAX": sieve(lambda n: {"kind": "routing_key", "patterns": [".".join("p" * (n + 1))]}),
    "CHARACTERS_MAX": sieve(lambda n: {"kind": "sql92", "expression": "a = 1".ljust(n)}),
    "TERMS_MAX": sieve(lambda n: {"kind": "sql92", "expression": " OR ".join(["a = 1"] * n)}),
    "DEPTH_MAX": sieve(lambda n: {"kind": "sql92", "expression": "(" * n + "a = 1" + ")" * n}),
    "ELEMENTS_MAX": sieve(lambda n: {"kind": "sql92", "expression": f"a IN ({QUOTED * (n - 1)}'1')"}),
    "TIMEOUT_MAX_S": sieve(lambda n: {"kind": "function", "function": "f", "timeout_seconds": n}),
}
OTHERS = {
    "FAULTS_MAX": "of answers",
    "FAULT_TEXT_LENGTH_MAX": "of answers: tests/unit/api/test_lists.py",
    "ERRORS_BYTES_MAX": "of answers: tests/unit/api/test_lists.py",
    "PAGE_BYTES_MAX": "of answers",
    "PULL_BYTES_MAX": "of answers",
    "PULLED_AROUND_BYTES_MAX": "of answers",
    "EVENTS_BYTES_MAX": "of answers",
    "HIDDEN_S_MAX": "VISIBILITY_TIMEOUT_S_MAX",
    "FORMERS_MAX": "of secrets that sign besides: tests/unit/test_rotation.py",
}


SUBSCRIBED = {"subscriptionName": "s", "protocol": "http", "endpoint": "http://example.com/"}


def cmq(action: str, make: Callable[[Any], dict[str, str]], **before: str) -> Taken:
    """Return what asks the CMQ endpoint about a topic; who publishes there needs a subscription."""

    def taken(n: Any) -> bool:
        asking = Asking()
        assert asking.pair("CreateTopic", topicName="t", **before) == (0, 0)
        first = SUBSCRIBED if action == "Subscribe" else {}
        if not first:
            assert asking.pair("Subscribe", topicName="t", **SUBSCRIBED) == (0, 0)
        return asking.pair(action, **{"topicName": "t"} | first | make(n)) == (0, 0)

    return taken


def signed(make: Callable[[Any], dict[str, str]]) -> Taken:
    """Return what asks for the topics, with what all requests may have."""

    def taken(n: Any) -> bool:
        asking = Asking()
        return pair_of(asking.serve(event_of(asking.signed({"Action": "ListTopic"} | make(n))))) == (0, 0)

    return taken


def answers_otherwise(asking: Asking, form: str) -> bool:
    """Say whether a form is read, whatever is then wrong with what it asks."""
    return pair_of(asking.serve(event_of(form))) != (CmqFault.UNREADABLE.value[0], CmqFault.UNREADABLE.value[1])


def of_bytes(n: int) -> bool:
    """Ask for the topics with a parameter so long that the form has so many bytes."""
    asking = Asking()
    around = len(asking.signed({"Action": "ListTopic", "x": ""}))
    while len(form := asking.signed({"Action": "ListTopic", "x": "x" * (n - around)})) != n:
        pass  # A signature takes more or fewer bytes, by its characters.
    return answers_otherwise(asking, form)


def crowded(n: int) -> bool:
    """Subscribe as the *n*-th to a topic."""
    asking = Asking()
    asking.ask("CreateTopic", topicName="t")
    [(key, row)] = [(key, row) for key, row in asking.fake.store.rows.items() if "subscription_count" in row]
    asking.fake.store.rows[key] = {**row, "subscription_count": n - 1}
    return asking.pair("Subscribe", topicName="t", **SUBSCRIBED) == (0, 0)


def several(name: str, make: Callable[[Any], list[str]]) -> Callable[[Any], dict[str, str]]:
    return lambda n: {f"{name}__{place}": text for place, text in enumerate(make(n), 1)}


OF_CMQ: dict[str, Taken] = {
    "BODY_BYTES_MIN": cmq("SetTopicAttributes", lambda n: {"maxMsgSize": str(n)}),
    "BODY_BYTES_ASKED_MAX": cmq("SetTopicAttributes", lambda n: {"maxMsgSize": str(n)}),
    "BODY_BYTES_MAX": cmq("PublishMessage", lambda n: {"msgBody": "x" * n}, maxMsgSize="1048576"),
    "BATCH_MAX": cmq("BatchPublishMessage", several("msgBody", lambda n: ["x"] * n)),
    "TAGS_MAX": cmq(
        "PublishMessage", lambda n: {"msgBody": "x"} | several("msgTag", lambda n: [f"t{i}" for i in range(n)])(n)
    ),
    "TAG_LENGTH_MAX": cmq("PublishMessage", lambda n: {"msgBody": "x", "msgTag__1": "t" * n}),
    "BINDING_KEYS_MAX": cmq("Subscribe", several("bindingKey", lambda n: [f"k{i}" for i in range(n)]), filterType="2"),
    "URL_LENGTH_MAX": cmq("Subscribe", lambda n: {"endpoint": "http://example.com/".ljust(n, "a")}),
    "TOPICS_PAGE_MAX": signed(lambda n: {"limit": str(n)}),
    "SUBSCRIPTIONS_PAGE_MAX": cmq("ListSubscriptionByTopic", lambda n: {"limit": str(n)}),
    "OFFSET_MAX": cmq("ListSubscriptionByTopic", lambda n: {"offset": str(n)}),
    "SUBSCRIPTIONS_MAX": crowded,
    "REQUEST_BYTES_MAX": lambda n: answers_otherwise(Asking(), "a=".ljust(n, "x")),
    "FORM_BYTES_MAX": of_bytes,
    "FORM_FIELDS_MAX": lambda n: answers_otherwise(Asking(), "&".join(f"a{place}=1" for place in range(n))),
    "NONCE_DIGITS_MAX": signed(lambda n: {"Nonce": "1" * n}),
}
OTHERS_OF_CMQ = {
    "TIMESTAMP_DIGITS_MAX": "a time of more digits is no time of today",
    "INTEGER_DIGITS_MAX": "beyond the bounds of every parameter",
    "BATCH_BYTES_MAX": "as large as sixteen messages of the largest size",
}


def of(*modules: ModuleType) -> dict[str, float]:
    named = ("_MAX", "_MIN", "_MAX_S")
    held = [each for module in modules for each in vars(module).items()]
    return {name: value for name, value in held if name.endswith(named) and not name.startswith("_")}


FILTERS = (tag_filters, routing_key_filter, function_filter, dialect)
NATIVE = of(
    limits, model, subscription_settings, topic_settings, retry_delay, strict_json, *FILTERS, subscriptions, tail
)
CMQ = of(of_cmq) | {"REQUEST_BYTES_MAX": limits.REQUEST_BYTES_MAX}
EACH = [pytest.param(name, NATIVE[name], taken, id=name) for name, taken in OF_REQUESTS.items()]
EACH += [pytest.param(name, CMQ[name], taken, id=f"CMQ {name}") for name, taken in OF_CMQ.items()]


@pytest.mark.parametrize(("name", "limit", "taken"), EACH)
def test_as_much_as_is_allowed_is_taken_and_one_more_is_refused(name: str, limit: float, taken: Taken) -> None:
    step = 1 if isinstance(limit, int) else limit / 10
    assert taken(limit)
    assert not taken(limit - step if name.endswith("_MIN") else limit + step)


def test_every_limit_is_tried_or_says_why_not() -> None:
    remedy = "say in OF_REQUESTS (OF_CMQ) how a request reaches the limit, or in OTHERS (OTHERS_OF_CMQ) why none does"
    assert (set(NATIVE), set(CMQ)) == ({*OF_REQUESTS, *OTHERS}, {*OF_CMQ, *OTHERS_OF_CMQ}), remedy
