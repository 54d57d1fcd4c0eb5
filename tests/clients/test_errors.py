"""Errors of the client: they cross the borders of processes, as those of a pool."""

import copy
import json
import pickle

import pytest
from tagcast_client import (
    AcknowledgedLateError,
    BatchInterruptedError,
    InProgressError,
    NotFoundError,
    SigningError,
    TagcastError,
    UnreachableError,
    VerificationError,
    VerificationFailure,
)
from tagcast_client.errors import refusal

PROBLEM = '{"title": "Conflict", "code": "%s", "errors": [{"pointer": "/a"}], "difference": ["ordered: only you"]}'


@pytest.mark.parametrize(
    "fault",
    [
        UnreachableError("http://127.0.0.1:8080", "connection refused", refused=True),
        refusal(409, PROBLEM % "conflict"),
        refusal(409, PROBLEM % "disagreement"),
        BatchInterruptedError((1, 2), 2),
        AcknowledgedLateError(["00000000000000000001"]),
        InProgressError("orders/billing/1", 30.0),
        VerificationError(VerificationFailure.UNTIMELY, "too old"),
        SigningError("no region"),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_an_error_is_the_same_in_another_process(fault: TagcastError) -> None:
    fault.add_note("of order 17")
    for other in (pickle.loads(pickle.dumps(fault)), copy.copy(fault), copy.deepcopy(fault)):
        assert type(other) is type(fault)
        assert (str(other), other.args, vars(other)) == (str(fault), fault.args, vars(fault))


@pytest.mark.parametrize("errors", [None, 1, {"name": ["is required"]}, ["is required"]])
def test_a_refusal_of_another_server_is_a_problem_whatever_its_fields_hold(errors: object) -> None:
    told = refusal(404, json.dumps({"title": None, "detail": None, "errors": errors}))
    assert (type(told), str(told), told.faults) == (NotFoundError, "404 HTTP 404", ())
