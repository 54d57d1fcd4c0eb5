"""Every planted bug is caught by an invariant; a survivor fails, and so does one whose text is no longer there."""

import pytest
from tagcast.pushing.retry_delay import delay_s

from tests.mutation.bugs import Bug, PlantingError, planted
from tests.simulation.mutants import catch_again, catch_again_all_of, table
from tests.simulation.planted import BUGS
from tests.tenth import of_this_commit, tenth


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("which", [of_this_commit(), pytest.param(None, marks=pytest.mark.nightly)])
def test_planted_bugs_are_caught(which: int | None) -> None:
    caught = catch_again_all_of(tenth(BUGS, which), 2)

    assert caught
    assert not [each.name for each in caught if each.survived], "\n".join(table(caught))


def test_every_planted_bug_has_a_name_of_its_own_and_its_place_in_the_shipped_code() -> None:
    for bug in BUGS:
        with planted(bug):
            pass

    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 179


def test_a_bug_that_is_not_caught_where_it_was_caught_last_is_looked_for_anew() -> None:
    bug = BUGS[0]

    assert catch_again(bug, 1).invariant is not None
    assert catch_again(bug, None) == catch_again(bug, 1)


def test_a_bug_without_its_text_in_the_shipped_code_cannot_be_planted() -> None:
    missing = Bug("gone", (("tagcast.pushing.retry_delay:delay_s", "no such text =>"),))

    with pytest.raises(PlantingError, match="0 times"), planted(missing):
        pass


def test_the_shipped_function_is_back_after_planting() -> None:
    shipped = delay_s.__code__
    with planted(next(bug for bug in BUGS if bug.changes[0][0] == "tagcast.pushing.retry_delay:delay_s")):
        assert delay_s.__code__ is not shipped

    assert delay_s.__code__ is shipped
