"""The audit finds nothing in the archives of simulated histories: two witnesses of the same service, who agree."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from glue_jobs import audit, compact
from glue_jobs.io import arguments
from tests.simulation.exported import archive_of
from tests.simulation.plan import draw_plan
from tests.spark.conftest import Bucket

HISTORIES = 30
WRONG_CLOCKS = {"skew", "jump"}
"""In such histories clocks are wrong by five minutes, which no tolerance of an audit should take for granted."""


def lines_of(seed: int) -> list[tuple[str, int, str]]:
    """Return kind, instant and line of each record; histories share the ids of their topics, archives must not."""
    made = []
    for record in archive_of(seed):
        fields = {**json.loads(record.line()), "record_id": f"{seed}.{record.fields['record_id']}"}
        if "topic_id" in fields:
            fields["topic_id"] = f"{seed}.{fields['topic_id']}"
        made.append((record.kind.value, fields.get("accepted_at") or fields["changed_at"], json.dumps(fields)))
    return made


@pytest.mark.parametrize("histories", [10, pytest.param(HISTORIES, marks=pytest.mark.nightly)])
def test_simulated_histories_keep_every_promise(
    histories: int,
    spark: SparkSession,
    bucket: Bucket,
    told: Callable[[], dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds = [seed for seed in range(100) if not draw_plan(seed).faults & WRONG_CLOCKS][:histories]
    assert len(seeds) == histories
    by_kind: dict[str, list[str]] = defaultdict(list)
    instants = []
    for seed in seeds:
        for kind, at, line in lines_of(seed):
            by_kind[kind].append(line)
            instants.append(at)
    first = datetime.fromtimestamp(min(instants) / 1000, UTC).date()
    end = datetime.fromtimestamp(max(instants) / 1000, UTC).date() + timedelta(1)
    window = ["--archive", bucket.uri, "--from", first.isoformat(), "--to", end.isoformat()]
    for kind, lines in by_kind.items():
        bucket.put(kind, first.isoformat(), lines)
    assert compact.main(window) == 0
    told()
    monkeypatch.setattr(arguments, "now_ms", lambda: arguments.instant_of(end + timedelta(30)))
    assert audit.main([*window, "--as-of", (end + timedelta(30)).isoformat()]) == 0
    [key] = [key for key in bucket.keys("reports/audit/") if key.endswith("certificate.json")]
    counts = json.loads(bucket.text(key))["counts"]
    assert counts["within_life"] == 0
    for name in ("discarded", "expired", "cancelled", "filtered", "waited", "gaps_judged", "backlog_of_ordered_lanes"):
        assert counts[name] > 0, name
