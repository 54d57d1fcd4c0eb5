"""The ledger of what we believe about AWS: nothing that we ask of it, or set there, is without a row."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tagcast_cli.smoke_story import STEPS

from local.template.translated import SOURCE
from tests.architecture.test_documents import table_rows, text_of
from tests.aws import limits
from tests.aws.stack import translated

ROOT = Path(__file__).resolve().parents[2]
LEDGER = "docs/aws-beliefs.md"
TEMPLATE = translated()
COLUMNS = ("id", "behaviour", "how to see it", "how the simulated AWS does it", "range")
UNPROVEN = list(table_rows(LEDGER, *COLUMNS))
NAMED = tomllib.loads((ROOT / "tests/architecture/beliefs.toml").read_text())
BEHAVIOURS = NAMED["documented"] | {row[0]: [row[1], *NAMED["unproven"][row[0]]] for row in UNPROVEN}
"""By id the behaviour, where we rely on it, and its page."""


def actions_in(value: Any) -> Iterator[str]:
    """Yield every action that a statement of a policy names, wherever it stands."""
    if isinstance(value, dict):
        if "Effect" in value and "Action" in value:
            yield from [value["Action"]] if isinstance(value["Action"], str) else value["Action"]
        for each in value.values():
            yield from actions_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from actions_in(each)


def test_a_behaviour_has_an_id_of_its_own_and_a_page() -> None:
    assert [row[0] for row in UNPROVEN] == list(NAMED["unproven"])
    assert len(BEHAVIOURS) == len(NAMED["documented"]) + len(NAMED["unproven"]) > 50
    for name, (behaviour, where, page) in BEHAVIOURS.items():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name)
        assert behaviour.endswith("."), name
        assert where, name
        assert re.match(r"https://|[\w-]+/|[\w.-]+(, \d{4}-\d\d-\d\d)?$", page), name
        assert "/" in page or name.partition("-")[0] in NAMED["guides"], name


def test_every_action_of_a_role_has_a_row() -> None:
    assert NAMED["actions"].keys() == set(actions_in(TEMPLATE.resources))


def test_every_setting_of_an_event_source_has_a_row() -> None:
    settings = {name for _, source in TEMPLATE.of_type(SOURCE) for name in source}
    assert NAMED["settings"].keys() == settings


@pytest.mark.parametrize("kind", ["actions", "settings"])
def test_an_action_or_setting_names_behaviours_that_are_there(kind: str) -> None:
    assert {each for names in NAMED[kind].values() for each in names} - BEHAVIOURS.keys() == set()


def test_the_smoke_test_names_rows_that_are_there() -> None:
    assert {row for _, _, rows in STEPS for row in rows} - BEHAVIOURS.keys() == set()


def test_what_is_unproven_has_a_command_that_shows_it() -> None:
    assert [row[0] for row in UNPROVEN if "`" not in row[2]] == []
    assert "seventeen" in text_of("docs/aws-beliefs.md")
    assert len(UNPROVEN) == 17


def test_what_is_unproven_is_played_within_a_wide_range_or_has_a_reason() -> None:
    drawing = "".join((ROOT / "tests/aws" / name).read_text() for name in ("unsaid.py", "lambdas.py", "quotas.py"))
    for name, *_, how, constant in UNPROVEN:
        if constant == "-":
            assert len(how) > 40, f"{name}: no reason"
        else:
            low, high = getattr(limits, constant.strip("`"))
            assert high >= 4 * low, f"{name}: {constant} is no wide range"
            assert constant.strip("`") in drawing, f"{name}: nothing draws from {constant}"
