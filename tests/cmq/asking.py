"""The CMQ function in a world in memory, asked with API Gateway's events as clients of CMQ make them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import urlencode

from tagcast.tables import Key, Row
from tagcast_aws.cmq.authentication import signature, string_to_sign
from tagcast_aws.cmq.form import Form
from tagcast_aws.cmq.keys import CmqKey as CmqKey
from tagcast_aws.cmq.keys import KeyRing
from tagcast_aws.runtime.settings import Home

from functions.cmq import app
from tests.fakes.world import FakeWorld

HOST = "cmq-topic-gz.example.test"
HOME = Home("aws", "us-east-1", "123456789012")
KEY = CmqKey("AKIDexampleSecretId0001", "exampleSecretKey0001", 0)


@dataclass
class FixedSecret:
    """Keys that somebody may change; *ages* is how old each reader let them be."""

    ring: KeyRing = field(default_factory=lambda: KeyRing((KEY,)))
    ages: list[float] = field(default_factory=list)

    def text(self, age_s_max: float) -> str | None:
        self.ages.append(age_s_max)
        return self.ring.as_text()


def event_of(
    form: str,
    *,
    method: str = "POST",
    path: str = "/v2/index.php",
    host: str = HOST,
    content_type: str | None = None,
    is_base64: bool = False,
) -> dict[str, Any]:
    """A request as API Gateway hands it over; *form* is its query or its body."""
    headers = {"host": host, **({} if content_type is None else {"content-type": content_type})}
    event: dict[str, Any] = {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": form if method == "GET" else "",
        "headers": headers,
        "requestContext": {"stage": "$default", "requestId": "r-1", "http": {"method": method, "path": path}},
        "isBase64Encoded": is_base64,
    }
    if method != "GET":
        event["body"] = base64.b64encode(form.encode()).decode() if is_base64 else form
    return event


@dataclass
class Asking:
    """A program with a key of its own."""

    fake: FakeWorld = field(default_factory=FakeWorld)
    secret: FixedSecret = field(default_factory=FixedSecret)
    nonces: count[int] = field(default_factory=lambda: count(1))

    def serve(self, event: dict[str, Any]) -> dict[str, Any]:
        """The whole answer of the function, which always has the status that all clients read."""
        answer = app.handle(event, self.fake.world, self.secret, HOME)
        assert answer["statusCode"] == 200
        told: dict[str, Any] = json.loads(answer["body"])
        assert told.keys() >= {"code", "message", "requestId"}
        assert isinstance(told["code"], int)
        return told

    def signed(
        self, parameters: Mapping[str, str], *, method: str = "POST", path: str = "/v2/index.php", host: str = HOST
    ) -> str:
        """The form of a request with all that clients add."""
        full = {
            "Nonce": str(next(self.nonces)),
            "Timestamp": str(self.fake.clock.now() // 1000),
            "SecretId": KEY.secret_id,
            "SignatureMethod": "HmacSHA256",
            **parameters,
        }
        text = string_to_sign(Form(method, host, path, full, 0))
        return urlencode({**full, "Signature": signature(text, KEY.secret_key or "", full["SignatureMethod"])})

    def ask(self, action: str, **parameters: str) -> dict[str, Any]:
        """What the function answers to a signed POST; two underscores stand for a dot in a name."""
        named = {name.replace("__", "."): value for name, value in parameters.items()}
        return self.serve(event_of(self.signed({"Action": action, **named})))

    def pair(self, action: str, **parameters: str) -> tuple[int, int]:
        return pair_of(self.ask(action, **parameters))

    def stored(self) -> dict[Key, Row]:
        """All rows but those that remember requests."""
        return {key: row for key, row in self.fake.store.rows.items() if not key.pk.startswith("SIGNED#")}

    def forget_requests(self) -> None:
        """Delete the rows that remember requests, so that a signature may be used again."""
        for key in [each for each in self.fake.store.rows if each.pk.startswith("SIGNED#")]:
            del self.fake.store.rows[key]


def pair_of(answer: Mapping[str, Any]) -> tuple[int, int]:
    """Code and module code; (0, 0) is success."""
    if answer["code"] == 0:
        assert answer["message"] == ""
        return 0, 0
    module, _, text = str(answer["message"]).removeprefix("(").partition(")")
    assert text
    return int(answer["code"]), int(module)
