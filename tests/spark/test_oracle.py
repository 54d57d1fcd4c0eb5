"""Compaction, report and audit by Spark say what a slow oracle in plain Python says, record by record.

The oracle (`tests/spark/oracle/`) reads the raw lines alone. Histories are those of the simulations, most with planted
faults; their lines come late, twice and damaged, and some of their messages are erased before anything is judged.
"""

from collections import Counter
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from glue_jobs import audit
from tests.spark.conftest import Bucket, Told
from tests.spark.oracle.compared import Case, play

HISTORIES, ARCHIVES = 250, 8
COUNTED = {"replays", "late_entries", "unjudged_without_body", "misses_not_provable", "gaps_judged"}
"""What some histories have to bring, so that the comparison says something of it."""


@pytest.mark.nightly
@pytest.mark.timeout(7_200)
def test_the_jobs_say_of_two_thousand_histories_what_the_oracle_says(
    spark: SparkSession, new_bucket: Callable[[], Bucket], told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds, counts = Counter[str](), Counter[str]()
    for number in range(ARCHIVES):
        seeds = range(HISTORIES * number, HISTORIES * (number + 1))
        played = play(Case(number, seeds), new_bucket(), told, monkeypatch)
        assert not played.differences, "\n".join(played.differences[:100])
        assert played.accused_wholes == []
        assert played.erased > 0
        kinds += played.kinds
        counts += played.counts
    assert kinds.keys() == audit.KINDS.keys()
    assert {name for name, number in counts.items() if number} >= COUNTED
