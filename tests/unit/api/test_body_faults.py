"""What is said of values that no field takes is said in our words, whatever reads them."""

from collections.abc import Iterator

import pytest
from tagcast.errors import Fault, FaultCode
from tagcast_aws.api.filters import filter_faults
from tagcast_aws.api.http.body import Body, read
from tagcast_aws.api.publishing.body import MessageBody
from tagcast_aws.api.pulling import AckBody
from tagcast_aws.api.routes import description
from tagcast_aws.api.subscriptions.settings import SubscriptionBody

WRONG: tuple[object, ...] = (
    None,
    "",
    "x" * 5_000,
    [],
    [[]],
    [""],
    {},
    {"": ""},
    {"a": 1},
    {"kind": "tags"},
    True,
    1.5,
    float("nan"),
    -1,
)
HOOK = {"endpoint": {"protocol": "https", "url": "https://example.com/"}}
DESCRIBED = description()["components"]["schemas"]


def models(base: type[Body]) -> Iterator[type[Body]]:
    """Yield every model of a body; those of other tests stand in no document."""
    for model in base.__subclasses__():
        if model.__name__ in DESCRIBED:
            yield model
        yield from models(model)


MODELS = {model.__name__: model for model in models(Body)}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_no_fault_is_told_in_the_words_of_a_library(name: str) -> None:
    for field in MODELS[name].model_fields:
        for value in WRONG:
            _, faults = read(MODELS[name], {field: value})
            assert [fault.detail for fault in faults if fault.detail[:1].isupper()] == []


def test_a_field_that_only_another_strategy_or_protocol_has_is_refused_by_the_name_of_the_present_one() -> None:
    _, faults = read(SubscriptionBody, {**HOOK, "retry": {"interval_seconds": 300}, "verified": True})
    assert [(fault.pointer, fault.detail) for fault in faults] == [
        ("/retry/interval_seconds", "is not a known field of INDEPENDENT_RETRY"),
        ("/verified", "is not a known field"),
    ]


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("tag", "is not a known field; did you mean tags?"),
        ("contentType", "is not a known field; did you mean content_type?"),
        ("price", "is not a known field"),
        ("tags" * 100_000, "is not a known field"),
    ],
    ids=["tag", "contentType", "price", "long"],
)
def test_a_field_of_a_similar_name_is_proposed(name: str, detail: str) -> None:
    _, [fault] = read(MessageBody, {"body": "x", name: "eu"})
    assert fault.detail == detail


@pytest.mark.parametrize("handles", [[], [""]])
def test_what_is_empty_and_must_not_be_is_said_to_be(handles: list[str]) -> None:
    _, [fault] = read(AckBody, {"receipt_handles": handles})
    assert fault.detail == "must not be empty"


MANY = {f"x-{number}": 1 for number in range(1_000)}


@pytest.mark.parametrize(
    ("model", "value", "fault"),
    [
        (MessageBody, {"body": "x"} | MANY, Fault("has too many fields", "", FaultCode.TOO_LARGE)),
        (
            MessageBody,
            {"body": "x", "properties": MANY},
            Fault("must have at most 50 properties", "/properties", FaultCode.TOO_LARGE),
        ),
        (
            SubscriptionBody,
            HOOK | {"headers": MANY},
            Fault("must have at most 10 headers", "/headers", FaultCode.TOO_LARGE),
        ),
        (
            SubscriptionBody,
            {"endpoint": HOOK["endpoint"] | MANY},
            Fault("has too many fields", "/endpoint", FaultCode.TOO_LARGE),
        ),
    ],
)
def test_no_member_of_an_object_with_far_too_many_is_looked_at(
    model: type[Body], value: dict[str, object], fault: Fault
) -> None:
    assert read(model, value) == (None, [fault])


@pytest.mark.parametrize("name", ["different tags", "one tag again and again"])
def test_a_filters_texts_are_counted_before_they_are_looked_at(name: str) -> None:
    tags = [f"{number}\n" for number in range(10_000)] if name == "different tags" else ["\n"] * 10_000
    [fault] = filter_faults({"kind": "tags", "tags": tags})
    assert fault == Fault("must have at most 1000 tags, including repeated ones", "/filter/tags", FaultCode.TOO_LARGE)
