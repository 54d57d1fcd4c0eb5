"""`tagcast versions` and `tagcast shadow …` ask what they should and show what was answered."""

import pytest

from tests.unit.cli.conftest import FakeApi, Run

SHADOW_PATH = "/topics/test1/subscriptions/A/shadow"
PEAR = {"kind": "tags", "tags": ["pear"]}
REPORT = {
    "filter": PEAR,
    "shadow_version": 7,
    "active_version": 1,
    "since": "2026-05-01T12:00:00.000Z",
    "counts": {"evaluated": 42, "both": 30, "only_active": 5, "only_shadow": 1, "neither": 6, "errors": 0},
    "samples": [{"message_id": "01747000000000000001", "way": "only_shadow"}],
}


def test_versions_are_a_table(api: FakeApi, run: Run) -> None:
    kept = [{"version": 2, "filter": None, "changed_at": "2026-05-01T12:00:00.000Z"}, {"version": 1, "filter": PEAR}]
    api.teach("GET /topics/test1/subscriptions/A/versions?limit=20", {"versions": kept})
    result = run("versions", "test1", "A")
    assert result.exit_code == 0, result.output
    assert "everything" in result.output
    assert "tags: pear" in result.output


@pytest.mark.parametrize(
    ("options", "filter"),
    [(["--tag", "pear"], PEAR), (["--sql", "a > 1"], {"kind": "sql92", "expression": "a > 1"}), ([], None)],
)
def test_a_shadow_is_set_with_the_filter_options(api: FakeApi, run: Run, options: list[str], filter: object) -> None:
    api.teach(f"PUT {SHADOW_PATH}", REPORT, 201)
    result = run("shadow", "set", "test1", "A", *options)
    assert result.exit_code == 0, result.output
    assert api.requests[0].body == {"filter": filter}


def test_a_shadow_shows_its_counts_and_its_differences(api: FakeApi, run: Run) -> None:
    api.teach(f"GET {SHADOW_PATH}", REPORT)
    result = run("shadow", "show", "test1", "A")
    assert "tags: pear" in result.output
    assert "42" in result.output
    assert "01747000000000000001" in result.output
    assert "only the shadow" in result.output


@pytest.mark.parametrize(("options", "body"), [([], {}), (["--shadow-version", "7"], {"shadow_version": 7})])
def test_a_shadow_is_promoted_by_its_version(api: FakeApi, run: Run, options: list[str], body: object) -> None:
    api.teach(f"POST {SHADOW_PATH}/promote", {"name": "A", "version": 2, "filter": PEAR})
    result = run("shadow", "promote", "test1", "A", *options)
    assert result.exit_code == 0, result.output
    assert api.requests[0].body == body
    assert "is now its filter" in result.output


def test_a_refused_promotion_ends_with_1(api: FakeApi, run: Run) -> None:
    api.teach(f"POST {SHADOW_PATH}/promote", {"title": "Precondition failed", "status": 412}, 412)
    assert run("shadow", "promote", "test1", "A", "--shadow-version", "6").exit_code == 1


def test_a_shadow_is_ended(api: FakeApi, run: Run) -> None:
    api.teach(f"DELETE {SHADOW_PATH}", status=204)
    assert "was deleted" in run("shadow", "delete", "test1", "A").output
