"""The ledger of what we believe about AWS: nothing that we ask of it, or set there, is without a row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tagcast_cli.smoke_story import STEPS

from local.rules import limits
from local.template.translated import SOURCE, read_template
from tests.architecture.test_documents import table_rows, text_of

ROOT = Path(__file__).resolve().parents[2]
LEDGER, DEPLOY = "docs/aws-beliefs.md", "docs/deploy.md"
TEMPLATE = read_template(ROOT / "template.yaml")
BEHAVIOURS = list(table_rows(LEDGER, "id", "behaviour", "where we rely on it", "AWS's page, date", "state"))
STATES = {name: state for name, _, _, _, state in BEHAVIOURS}


def statements(value: Any) -> Iterator[dict[str, Any]]:
    """Every statement of a policy, wherever it stands."""
    if isinstance(value, dict):
        if "Effect" in value and "Action" in value:
            yield value
        for each in value.values():
            yield from statements(each)
    elif isinstance(value, list):
        for each in value:
            yield from statements(each)


def named(*header: str) -> dict[str, list[str]]:
    return {row[0]: row[1].split(", ") for row in table_rows(LEDGER, *header)}


def test_a_behaviour_has_an_id_of_its_own_a_page_and_one_of_three_states() -> None:
    assert len(STATES) == len(BEHAVIOURS) > 50
    for name, behaviour, where, page, state in BEHAVIOURS:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name)
        assert behaviour.endswith("."), name
        assert where, name
        assert re.match(r"https://|[A-Za-z0-9-]+/", page), name
        assert state in ("seen", "documented", "unproven"), name


def test_every_action_of_a_role_has_a_row() -> None:
    actions = {
        action
        for resource in TEMPLATE.resources.values()
        for statement in statements(resource)
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }
    assert named("action", "behaviours").keys() == actions


def test_every_setting_of_an_event_source_has_a_row() -> None:
    settings = {name for _, source in TEMPLATE.of_type(SOURCE) for name in source}
    assert named("setting", "behaviours").keys() == settings


def test_every_property_of_the_template_has_a_row() -> None:
    used: dict[str, set[str]] = {}
    for resource in TEMPLATE.resources.values():
        used.setdefault(resource["Type"], set()).update(resource.get("Properties", {}))
    del used[SOURCE]
    assert {kind: set(names) for kind, names in named("type", "properties").items()} == used


@pytest.mark.parametrize("first", ["action", "setting"])
def test_a_row_names_behaviours_that_are_there(first: str) -> None:
    assert {each for names in named(first, "behaviours").values() for each in names} - STATES.keys() == set()


def test_the_smoke_test_names_rows_that_are_there() -> None:
    assert {row for _, _, rows in STEPS for row in rows} - STATES.keys() == set()


def test_what_is_unproven_is_told_to_owners_with_a_command_that_shows_it() -> None:
    rows = list(table_rows(DEPLOY, "belief", "how to see it"))
    assert {name for name, _ in rows} == {name for name, state in STATES.items() if state == "unproven"}
    assert [name for name, how in rows if "`" not in how] == []
    assert "## Not seen on AWS" in text_of(DEPLOY)


def test_what_is_unproven_is_played_within_a_wide_range_or_has_a_reason() -> None:
    rows = list(table_rows(LEDGER, "unproven", "how the simulated AWS plays it", "range"))
    assert {name for name, _, _ in rows} == {name for name, state in STATES.items() if state == "unproven"}
    drawing = "".join((ROOT / "tests/aws" / name).read_text() for name in ("unsaid.py", "lambdas.py", "quotas.py"))
    for name, how, constant in rows:
        if constant == "-":
            assert len(how) > 40, f"{name}: no reason"
        else:
            low, high = getattr(limits, constant.strip("`"))
            assert high >= 4 * low, f"{name}: {constant} is no wide range"
            assert constant.strip("`") in drawing, f"{name}: nothing draws from {constant}"
