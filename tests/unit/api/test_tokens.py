"""Tokens from a request's header to the answer: the JWT authorizer of the front, and the topics that a token names."""

import asyncio
import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from tagcast_aws.api.http.authorization import ForbiddenError as TopicForbiddenError
from tagcast_aws.api.http.authorization import Rights, TokenScope, rights_of
from tagcast_aws.api.http.routing import Route
from tagcast_aws.api.routes import MANAGE, PUBLISH, PULL
from tagcast_client import BearerToken, Client, ForbiddenError, NotFoundError, Retries

from functions.manage import app as manage
from functions.publish import app as publish
from functions.pull import app as pull
from local.front.authorizer import JwtAuthorizer, read_authorizer
from local.front.front import Front
from local.front.routes import Routes
from local.functions.worker import Invocation
from local.rules.needs import Account
from local.template.intrinsics import Resolver
from tests.aws.stack import translated
from tests.fakes.handlers import answered, token
from tests.fakes.world import FakeWorld
from tests.http_server import Handler, serving

AUDIENCE = "tagcast"
WORKERS = "/topics/orders/subscriptions/workers"


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@cache
def new_key(which: str) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def number(value: int) -> str:
    return encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


@dataclass
class Issuer:
    """An OpenID issuer: its keys over HTTP, and tokens."""

    fetched: list[str] = field(default_factory=list)
    url: str = ""

    def answer(self, path: str) -> Any:
        self.fetched.append(path)
        if path.endswith("/openid-configuration"):
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        public = new_key("issuer").public_key().public_numbers()
        return {"keys": [{"kid": "k1", "kty": "RSA", "n": number(public.n), "e": number(public.e)}]}

    def token(self, *, key: str = "issuer", head: dict[str, Any] | None = None, **claims: Any) -> str:
        now = int(time.time())
        told = {"iss": self.url, "aud": AUDIENCE, "iat": now - 5, "exp": now + 600, "sub": "somebody"} | claims
        first = encoded(json.dumps({"alg": "RS256", "kid": "k1", **(head or {})}).encode())
        signed = f"{first}.{encoded(json.dumps(told).encode())}"
        return f"{signed}.{encoded(new_key(key).sign(signed.encode(), padding.PKCS1v15(), SHA256()))}"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    found = Issuer()

    class Serving(Handler):
        def serve(self) -> None:
            self.answer(200, json.dumps(found.answer(self.path)).encode())

    with serving(Serving) as found.url:
        yield found


def with_api(issuer: Issuer, play: Callable[[httpx.Client], None]) -> None:
    """Serve the template's routes by the shipped handlers, as a deployment that takes this issuer's tokens."""
    world = FakeWorld().world
    parameters = {"JwtIssuer": issuer.url, "JwtAudience": AUDIENCE}
    grounds = read_authorizer(Resolver(translated(), Account("123456789012", "us-east-1"), parameters=parameters))
    assert grounds is not None
    handlers = {"PublishFunction": publish, "ManageFunction": manage, "PullFunction": pull}

    async def invoke(function: str, event: bytes) -> Invocation:
        return Invocation(json.dumps(handlers[function].handle(json.loads(event), world)).encode())

    async def main() -> None:
        authorize = JwtAuthorizer(grounds).authorize
        front = Front(Routes(translated().routes()), {name: name for name in handlers}, invoke, authorize=authorize)
        port = await front.listen(0)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as api:
                await asyncio.to_thread(play, api)
        finally:
            await front.stop()

    asyncio.run(main())


def status(api: httpx.Client, method: str, path: str, token: str | None, body: Any = None) -> int:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return api.request(method, path, json=body, headers=headers).status_code


def test_a_token_lets_through_what_its_scopes_and_topics_say(issuer: Issuer) -> None:
    manager = issuer.token(scope="manage", tagcast_topics=["orders", "billing-*"])
    publisher = issuer.token(scope="publish other", tagcast_topics="orders")
    reader = issuer.token(scp="read", tagcast_topics=["*"])
    consumer = issuer.token(scope="consume", tagcast_topics="orders")

    def play(api: httpx.Client) -> None:
        with Client(str(api.base_url), auth=BearerToken(manager), retries=Retries(seconds=0)) as client:
            client.create_topic("orders")
            client.create_topic("billing-eu")
            assert client.get_topic("orders").name == "orders"
            with pytest.raises(ForbiddenError, match="does not name this topic"):
                client.create_topic("secrets")
            with pytest.raises(ForbiddenError, match="scopes publish"):
                client.publish("orders", "x")
            with pytest.raises(ForbiddenError, match="all topics"):
                list(client.list_topics())
        with Client(str(api.base_url), auth=BearerToken(lambda: publisher), retries=Retries(seconds=0)) as client:
            assert client.publish("orders", "x").matched == 0
            with pytest.raises(ForbiddenError, match="does not name this topic"):
                client.publish("billing-eu", "x")
            with pytest.raises(ForbiddenError, match="scopes read, manage"):
                client.get_topic("orders")
        with Client(str(api.base_url), auth=BearerToken(reader), retries=Retries(seconds=0)) as client:
            assert [topic.name for topic in client.list_topics()] == ["billing-eu", "orders"]
            with pytest.raises(NotFoundError):
                client.get_topic("no-such-topic")
            with pytest.raises(ForbiddenError, match="scopes manage"):
                client.delete_topic("orders")
        with Client(str(api.base_url), auth=BearerToken(consumer), retries=Retries(seconds=0)) as client:
            client.request("PUT", f"{WORKERS}/members/one", {"filter": None})
            assert client.request("POST", f"{WORKERS}/pull", {}).json == {"messages": []}
            client.request("DELETE", f"{WORKERS}/members/one")
            for method, path in (("DELETE", WORKERS), ("GET", WORKERS), ("POST", "/topics/orders/messages")):
                with pytest.raises(ForbiddenError, match="none of the scopes"):
                    client.request(method, path)
        assert status(api, "GET", "/topics", issuer.token(scp=["read", "other"], tagcast_topics="*")) == 200

    with_api(issuer, play)
    assert issuer.fetched == ["/.well-known/openid-configuration", "/keys"]


def test_a_token_without_the_claim_reaches_no_topic(issuer: Issuer) -> None:
    scopes = "read manage publish"
    claims: list[Any] = [[], "", "orders.*", "[o]rders", 7, None]
    nothing = [issuer.token(scope=scopes), *(issuer.token(scope=scopes, tagcast_topics=claim) for claim in claims)]
    tried = {"filter": None, "message": {"body": "x"}}

    def play(api: httpx.Client) -> None:
        for each in nothing:
            for method, path in (("GET", "/topics"), ("PUT", "/topics/orders"), ("POST", "/topics/orders/messages")):
                assert status(api, method, path, each, {"body": "x"}) == 403, path
            assert status(api, "POST", "/filters/test", each, tried) == 200
            assert status(api, "GET", "/nowhere", each) == 404
        other = issuer.token(scope=scopes, tagcast_topics="a")
        assert status(api, "PUT", "/topics/%61", other, {}) == 201
        assert status(api, "PUT", "/topics/%62", other, {}) == 403
        assert status(api, "PUT", "/topics/a%2Fb", other, {}) == 403

    with_api(issuer, play)


def test_what_is_no_token_of_the_issuer_now_is_refused_and_the_open_routes_ask_for_none(issuer: Issuer) -> None:
    now = int(time.time())
    good: dict[str, Any] = {"scope": "read", "tagcast_topics": "*"}
    head, _, signature = issuer.token(**good).split(".")
    forged = encoded(json.dumps({"iss": issuer.url, "aud": AUDIENCE, "exp": now + 600, **good}).encode())
    refused = {
        "none": None,
        "no token": "abc",
        "forged": f"{head}.{forged}.{signature}",
        "unsigned": issuer.token(head={"alg": "none"}, **good).rpartition(".")[0] + ".",
        "by another algorithm": issuer.token(head={"alg": "HS256"}, **good),
        "another's key": issuer.token(key="other", **good),
        "an unknown key": issuer.token(head={"kid": "k2"}, **good),
        "another issuer": issuer.token(**good, iss="https://elsewhere.example"),
        "another audience": issuer.token(**good, aud=["a", "b"]),
        "over": issuer.token(**good, exp=now - 1),
        "without an end": issuer.token(**good, exp=0),
        "an end of no value": issuer.token(**good, exp=None),
        "an end that is a text": issuer.token(**good, exp=str(now + 600)),
        "an end that is a list": issuer.token(**good, exp=[now + 600]),
        "an end beyond all numbers": issuer.token(**good, exp=float("nan")),
        "a beginning that is a text": issuer.token(**good, nbf="0"),
        "made at no instant": issuer.token(**good, iat={}),
        "an audience that is none": issuer.token(**good, aud=[{}, AUDIENCE + "s"]),
        "not yet": issuer.token(**good, nbf=now + 600),
        "from the future": issuer.token(**good, iat=now + 600),
    }

    def play(api: httpx.Client) -> None:
        assert {why: status(api, "GET", "/topics", token) for why, token in refused.items()} == dict.fromkeys(
            refused, 401
        )
        for claims in ({"aud": ["x", AUDIENCE]}, {"sub": 7}, {"jti": 7}, {"exp": now + 600.5}):
            assert status(api, "GET", "/topics", issuer.token(**good, **claims)) == 200
        for path in ("/health", "/openapi.json"):
            assert status(api, "GET", path, None) == 200

    with_api(issuer, play)


def test_metrics_are_for_tokens_of_all_topics(issuer: Issuer) -> None:
    answers = {
        None: 401,
        issuer.token(scope="read", tagcast_topics="orders"): 403,
        issuer.token(scope="read", tagcast_topics="** o*"): 403,
        issuer.token(scope="publish", tagcast_topics="*"): 403,
        issuer.token(scope="read", tagcast_topics="*", exp=1): 401,
        issuer.token(scope="read", tagcast_topics="*"): 200,
        issuer.token(scope="manage", tagcast_topics=["orders", "*"]): 200,
    }

    def play(api: httpx.Client) -> None:
        assert {token: status(api, "GET", "/metrics", token) for token in answers} == answers

    with_api(issuer, play)


def test_names_of_topics_that_differ_by_case_are_two() -> None:
    named = Rights(topics=("orders", "BILLS*"))
    named.check_topic("orders")
    for other in ("Orders", "bills"):
        with pytest.raises(TopicForbiddenError):
            named.check_topic(other)


JUDGED = [route for route in (*PUBLISH, *PULL, *MANAGE) if not route.is_public]
PLACES = {"topic": "%6frders", "subscription": "a", "message_id": "00000000000000000001", "member_id": "c"}


def asked(route: Route, claims: dict[str, Any]) -> int:
    answer = answered(FakeWorld().world, route.method, route.path.format(**PLACES), "{}", claims=claims)
    return int(answer["statusCode"])


@pytest.mark.parametrize("route", JUDGED, ids=lambda route: f"{route.method} {route.path}")
def test_the_function_judges_scopes_and_topics_itself_whatever_route_let_the_request_through(route: Route) -> None:
    enough = " ".join(route.scopes)
    others = " ".join(scope for scope in TokenScope if scope not in route.scopes)
    mine, its = {"tagcast_topics": ["orders", "*"]}, {"tagcast_topics": ["payments", "order"]}

    assert asked(route, {"scope": enough, **mine}) != 403
    assert asked(route, {"scope": others, **mine}) == 403
    assert asked(route, mine) == 403
    assert (asked(route, {"scope": enough, **its}) == 403) is not route.names_no_topic


def test_a_method_is_what_it_says_letter_by_letter() -> None:
    claims = {"scope": "manage", "tagcast_topics": "orders"}
    statuses = [
        answered(FakeWorld().world, method, "/topics/orders", "{}", claims=claims)["statusCode"]
        for method in ("PUT", "put", "Put")
    ]
    assert statuses == [201, 405, 405]


def test_scopes_may_have_a_prefix_and_without_it_they_are_none() -> None:
    world = replace(FakeWorld().world, scope_prefix="tagcast/")
    for scope, status in (("tagcast/manage", 201), ("manage", 403), ("tagcast/read other", 403), ("tagcast/", 403)):
        claims = {"scope": scope, "tagcast_topics": "orders"}
        assert answered(world, "PUT", "/topics/orders", "{}", claims=claims)["statusCode"] == status, scope


@pytest.mark.parametrize(
    ("claim", "granted"),
    [
        (["orders", "bills-*"], ("orders", "bills-*")),
        ("orders bills-?", ("orders", "bills-?")),
        (["team a *"], ()),
        (["orders", "team a *"], ("orders",)),
        (["x,*"], ()),
        ("x,* orders", ("orders",)),
        (["a\t*"], ()),
        ("a\t*", ()),
        ('a"*"', ()),
        ("[*]", ()),
        ([["*"]], ()),
        (["*."], ()),
        ({"*": 1}, ()),
        (True, ()),
        (None, ()),
        ("orders\u00a0*", ()),
        (["pay\u2028*"], ()),
        (["*\n"], ()),
        ("", ()),
        ([""], ()),
        ("*", ("*",)),
        ("** ? ???????? ?*", ()),
        ("?a* *-? **b", ("?a*", "*-?", "**b")),
    ],
)
def test_an_odd_claim_grants_nothing_and_an_element_is_one_pattern(claim: object, granted: tuple[str, ...]) -> None:
    assert rights(f"Bearer {token({'scope': 'read', 'tagcast_topics': claim})}") == Rights(frozenset({"read"}), granted)


def rights(authorization: str | None, scopes: object = ("read",)) -> Rights | None:
    claims = {"tagcast_topics": "[*]", "scope": "read manage publish"}
    headers = {} if authorization is None else {"authorization": authorization}
    return rights_of(
        {"headers": headers, "requestContext": {"authorizer": {"jwt": {"claims": claims, "scopes": scopes}}}}
    )


def test_what_is_not_exactly_one_token_names_no_topic() -> None:
    good, all_of = token({"scope": "read", "tagcast_topics": ["orders"]}), token({"tagcast_topics": "*"})
    for authorization in (f"Bearer {good}", f"bearer {good}", good):
        assert rights(authorization) == Rights(frozenset({"read"}), ("orders",))
    odd: tuple[str | None, ...] = (
        None,
        "",
        "Bearer",
        f"Bearer {good},Bearer {all_of}",
        f"{all_of} {good}",
        f"{good}.x",
        "a.b.c",
        "e30.W10.e30",
        "e30.IQ.e30",
    )
    for text in odd:
        assert rights(text) == Rights(frozenset({"read"}), ()), text


def test_scopes_are_those_of_the_token_and_of_what_the_gateway_judged() -> None:
    def scopes(claims: dict[str, Any], judged: object) -> set[str]:
        found = rights(token(claims), judged)
        assert found is not None
        return set(found.scopes)

    assert scopes({"scope": "read x"}, ["read", "manage"]) == {"read"}
    assert scopes({"scp": ["read", "manage"]}, ["manage"]) == {"manage"}
    assert scopes({"scope": "read"}, None) == set()
    assert scopes({}, ["read"]) == {"read"}
    assert scopes({"scope": 7}, ["read"]) == set()
    assert rights_of({"requestContext": {"authorizer": {"iam": {}}}}) is None
    assert rights_of({"requestContext": {}}) is None
