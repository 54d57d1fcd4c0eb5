"""Quotas are complete: each action of a role, each operation that deployed code calls has a row in the limits."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

from tests.architecture.test_beliefs import TEMPLATE, actions_in
from tests.aws.limits import ACTIONS, PLACES, QUOTAS, THROUGHPUT, actions_of

ROOT = Path(__file__).resolve().parents[2]
CODE = ("layers/tag_matching/python/tagcast_aws", "functions", "glue_jobs")
CLIENTS = ("dynamodb", "events", "firehose", "kms", "lambda", "s3", "secretsmanager", "sqs", "stepfunctions")
WHOLE_SERVICES = {"kms:*", "s3:*"}
"""Statements of the key's and the buckets' own policies, which name no call."""


def operations() -> dict[str, list[tuple[str, str]]]:
    """Every operation of the services, by the name of a client's method."""
    found: dict[str, list[tuple[str, str]]] = {}
    for service in CLIENTS:
        for name in botocore.session.get_session().get_service_model(service).operation_names:
            found.setdefault(xform_name(name), []).append((service, name))
    return found


def names_in(source: str) -> Iterator[str]:
    """Yield each attribute and each short text of some code: a client's method is named by one or the other."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def called(sources: Iterator[str]) -> dict[str, list[tuple[str, str]]]:
    """Return the methods of clients that the code may call, with the operations that they may be."""
    known, written = operations(), {name for source in sources for name in names_in(source)}
    return {method: known[method] for method in sorted(written & known.keys())}


OWN_FUNCTIONS = {"sign", "rotate_secret"}
"""Names of our functions that clients of KMS and of Secrets Manager have, too."""


def sources() -> Iterator[str]:
    return (path.read_text() for folder in CODE for path in sorted((ROOT / folder).rglob("*.py")))


def lacking(code: Iterator[str]) -> list[str]:
    """Return the methods for none of whose operations there are rows."""
    return [
        method
        for method, found in called(code).items()
        if not any(all(action in THROUGHPUT for action in actions_of(*each)) for each in found)
    ]


def test_every_action_of_a_role_has_a_row() -> None:
    assert THROUGHPUT.keys() == set(actions_in(TEMPLATE.resources)) - WHOLE_SERVICES


def test_every_operation_that_the_code_calls_has_a_row() -> None:
    assert len(called(sources())) > 25
    assert set(lacking(sources())) == OWN_FUNCTIONS


def test_an_operation_without_a_row_is_found() -> None:
    assert lacking(iter(["client.put_item()", "client.purge_queue()", 'getattr(c, "tag_queue")()'])) == [
        "purge_queue",
        "tag_queue",
    ]


def test_an_operation_with_another_name_is_there_and_has_rows() -> None:
    known = {each for found in operations().values() for each in found}
    assert ACTIONS.keys() - known == set()
    assert {action for actions in ACTIONS.values() for action in actions} - THROUGHPUT.keys() == set()


def test_a_row_names_quotas_or_says_why_it_has_none() -> None:
    named_ = {name for row in THROUGHPUT.values() if not isinstance(row, str) for name in row}
    assert named_ == QUOTAS.keys()
    for action, row in THROUGHPUT.items():
        assert row, action
        assert not isinstance(row, str) or re.match(r"unbounded: .{20}", row), action


@pytest.mark.parametrize("name", QUOTAS)
def test_a_quota_has_a_page_and_a_region_that_gives_least(name: str) -> None:
    quota = QUOTAS[name]
    assert re.fullmatch(r"[a-zA-Z0-9/-]+/latest/.+\.html", quota.page)
    assert 0 < quota.least <= quota.largest
    assert quota.bursts is None or 0 < quota.bursts[1] <= quota.bursts[0]
    assert all(quota.rate(place) > 0 < quota.burst(place) for place in PLACES)
