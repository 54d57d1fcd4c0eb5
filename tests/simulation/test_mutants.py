"""Every planted bug is caught by an invariant; a survivor fails, and so does one whose text is no longer there."""

from __future__ import annotations

import pytest
from tagcast.pushing.retry import delay_s

from tests.simulation.mutants import catch_again, catch_all_again, table
from tests.simulation.planted import MUTANTS
from tests.simulation.planted.mutant import Mutant, PlantingError, planted


@pytest.mark.timeout(1200)
def test_every_planted_bug_is_caught() -> None:
    caught = catch_all_again(2)

    survivors = [each.name for each in caught if each.survived]
    assert not survivors, "\n".join(table(caught))
    assert len(caught) == len({mutant.name for mutant in MUTANTS}) >= 40


def test_a_bug_that_is_not_caught_where_it_was_caught_last_is_looked_for_anew() -> None:
    mutant = MUTANTS[0]

    assert catch_again(mutant, 1).invariant is not None
    assert catch_again(mutant, None) == catch_again(mutant, 1)


def test_a_bug_without_its_text_in_the_shipped_code_cannot_be_planted() -> None:
    missing = Mutant("gone", "tagcast.pushing.retry:delay_s", "no such text", "")

    with pytest.raises(PlantingError, match="0 times"), planted(missing):
        pass


def test_the_shipped_function_is_back_after_planting() -> None:
    shipped = delay_s.__code__
    with planted(next(mutant for mutant in MUTANTS if mutant.where == "tagcast.pushing.retry:delay_s")):
        assert delay_s.__code__ is not shipped

    assert delay_s.__code__ is shipped
