"""What is said of values that no field takes is said in our words, whatever reads them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tagcast_aws.api.http.body import Body, read
from tagcast_aws.api.pulling.body import AckBody
from tagcast_aws.api.routes import description

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


@pytest.mark.parametrize("handles", [[], [""]])
def test_what_is_empty_and_must_not_be_is_said_to_be(handles: list[str]) -> None:
    _, [fault] = read(AckBody, {"receipt_handles": handles})
    assert fault.detail == "must not be empty"
