"""Signatures of recorded clients, and what is refused beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from tagcast_aws.cmq.authentication import signature, string_to_sign
from tagcast_aws.cmq.form import Form, parameters_in
from tagcast_aws.cmq.keys import KeyRing

from tests.cmq.asking import KEY, Asking, event_of, pair_of
from tests.fakes.world import FakeClock, FakeWorld

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "cmq_signing.json").read_text())
EXAMPLES: list[Mapping[str, Any]] = VECTORS["examples"]
AUTHENTICATION = {4100, 4300}
RECORDED_AT = 1_534_154_812_000
"""The timestamp of all of them."""


def form_of(example: Mapping[str, Any]) -> Form:
    return Form(example["method"], example["host"], example["path"], example["params"], 0)


def wire_of(example: Mapping[str, Any]) -> str:
    return str(example["wire"]).partition("?")[2] if example["method"] == "GET" else str(example["wire"])


def served(example: Mapping[str, Any], wire: str, asking: Asking) -> dict[str, Any]:
    how, content_type = {name: example[name] for name in ("method", "path", "host")}, example["content_type_header"]
    return asking.serve(event_of(wire, **how, content_type=content_type, is_base64=content_type is None))


def then(*, signs_all: bool = True) -> Asking:
    asking = Asking(FakeWorld(clock=FakeClock(RECORDED_AT)))
    asking.secret.ring = KeyRing((replace(KEY, signs_all=signs_all),))
    return asking


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each["name"])
def test_the_text_that_each_client_signs_is_known(example: Mapping[str, Any]) -> None:
    leaves_out = "signature_go_java_node_rule" in example
    text = string_to_sign(form_of(example), leaves_out=leaves_out)

    assert text == example["string_to_sign"]
    assert signature(text, example["secret_key"], example["params"].get("SignatureMethod")) == example["signature"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each["name"])
def test_the_form_of_each_client_is_read_as_it_was_meant(example: Mapping[str, Any]) -> None:
    assert parameters_in(wire_of(example).encode()) == {**example["params"], "Signature": example["signature"]}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each["name"])
def test_the_request_of_each_client_is_authenticated(example: Mapping[str, Any]) -> None:
    asking = then(signs_all="signature_go_java_node_rule" not in example)

    assert served(example, wire_of(example), asking)["code"] not in AUTHENTICATION


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each["name"])
@pytest.mark.parametrize("changed", ["Action", "topicName", "Nonce", "SecretId"])
def test_a_request_that_was_changed_on_its_way_is_refused(example: Mapping[str, Any], changed: str) -> None:
    parameters = dict(parse_qsl(wire_of(example), keep_blank_values=True))
    if changed not in parameters:
        changed = "RequestClient"
    parameters[changed] += "1"

    assert pair_of(served(example, urlencode(parameters), then())) in {(4100, 10030), (4100, 10270), (4000, 10360)}


def test_a_value_that_was_left_out_is_accepted_only_for_keys_that_say_so() -> None:
    example = next(each for each in EXAMPLES if "signature_go_java_node_rule" in each)

    answer = served(example, wire_of(example), then())

    assert pair_of(answer) == (4100, 10030)
    assert "@" in answer["message"]


def test_a_key_that_lets_values_go_unsigned_takes_signed_ones_all_the_same() -> None:
    example = next(each for each in EXAMPLES if "signature_go_java_node_rule" in each)
    wire = wire_of(example).partition("&Signature=")[0]
    signed = urlencode({"Signature": example["signature_go_java_node_rule"]})

    assert served(example, f"{wire}&{signed}", then(signs_all=False))["code"] not in AUTHENTICATION


def test_a_value_that_was_left_out_is_not_served_again_with_another_value() -> None:
    example = next(each for each in EXAMPLES if "signature_go_java_node_rule" in each)
    asking = then(signs_all=False)

    assert served(example, wire_of(example), asking)["code"] not in AUTHENTICATION
    altered = served(example, wire_of(example).replace("%40", "%40x"), asking)
    assert altered["message"] == "(10030)authentication failed: this request was already accepted; sign a new one"


def test_what_a_get_leaves_out_is_never_accepted() -> None:
    example = next(each for each in EXAMPLES if each["method"] == "GET")
    without = {name: value for name, value in example["params"].items() if name != "msgBody"}
    forged = signature(string_to_sign(replace(form_of(example), parameters=without)), KEY.secret_key or "", None)

    wire = urlencode({**example["params"], "Signature": forged})

    assert pair_of(served(example, wire, then(signs_all=False))) == (4100, 10030)


@pytest.mark.parametrize("method", ["HmacSHA1", "hmacsha256", "", None])
def test_only_the_exact_word_selects_the_longer_digest(method: str | None) -> None:
    assert signature("text", "key", method) == signature("text", "key", "HmacSHA1")
    assert signature("text", "key", "HmacSHA256") != signature("text", "key", method)


def test_a_host_is_signed_as_it_was_sent_with_its_port() -> None:
    asking = Asking()
    form = asking.signed({"Action": "ListTopic"}, host="127.0.0.1:8080")

    assert pair_of(asking.serve(event_of(form, host="127.0.0.1:8080"))) == (0, 0)
    answer = asking.serve(event_of(asking.signed({"Action": "ListTopic"}, host="127.0.0.1"), host="127.0.0.1:8080"))
    assert pair_of(answer) == (4100, 10030)
    assert "POST 127.0.0.1:8080/v2/index.php" in answer["message"]
