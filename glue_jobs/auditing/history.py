"""Returns the settings that applied at a time: filters by topic version, retry settings by time, and closed lanes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql
from tagcast.archive.record import RecordKind
from tagcast.filters.function_filter import is_function
from tagcast.model import RETENTION_S_MAX, LaneState, Protocol, RetryPolicy, Strategy
from tagcast.pushing.retry_delay import BACKOFF_INTERVAL_S_RANGE, delay_s

from glue_jobs.io import arguments
from glue_jobs.io.materialised import materialise
from glue_jobs.io.storage import Archive

FOREVER, LIFE_MS = 2**62, RETENTION_S_MAX * 1000
LANE = ("topic", "ordinal")
GRANULARITY_MS = 1000
"""The table's stream gives the time of a change in whole seconds, rounded down."""


@dataclass(frozen=True, slots=True)
class FilterInForce:
    """A version of a filter. It is in force for topic versions from *since* to before *until*.

    *filter* is JSON text; None matches everything. *removed_at* is the instant (ms) at which the subscription was
    deleted; None if the subscription exists. The archive records no topic version for a deletion. *changed_at* is the
    instant of this *version*.
    """

    ordinal: int
    filter: str | None
    since: int
    until: int
    removed_at: int | None
    is_function: bool
    version: int = 0
    changed_at: int = 0

    @property
    def value(self) -> Mapping[str, object] | None:
        """The filter in its JSON form."""
        found: Mapping[str, object] | None = None if self.filter is None else json.loads(self.filter)
        return found

    @property
    def name(self) -> str:
        """The filter version's name in the column ``matching`` of an erased message.

        >>> FilterInForce(3, None, 1, 2, None, False, 7).name
        '3.7'
        """
        return f"{self.ordinal}.{self.version}"


@dataclass(frozen=True, slots=True)
class Records:
    """The curated (compacted) records that a report or an audit of *window* reads.

    *deliveries* always have the topic's name, although stored records of backlogs have only its id.
    """

    window: arguments.Window
    messages: DataFrame
    deliveries: DataFrame
    subscriptions: DataFrame
    lanes: DataFrame


def read(archive: Archive, window: arguments.Window, topic: str | None) -> Records:
    """Return messages and deliveries of the window, and subscriptions and lanes of all days.

    All days are needed, because older settings and states may still apply in the window. With a *topic*, only the
    topic's records are returned. Subscriptions and lanes are cached, because they are many small files.
    """
    archive.suit(window.days(), whole=(RecordKind.SUBSCRIPTIONS, RecordKind.LANES))
    subscriptions, lanes = (materialise(archive.records(k)) for k in (RecordKind.SUBSCRIPTIONS, RecordKind.LANES))
    messages, deliveries = (archive.records(k, window.days()) for k in (RecordKind.MESSAGES, RecordKind.DELIVERIES))
    # Records of backlogs have only the topic's id. Each backlog has a lane, whose records have the id and the name.
    both = subscriptions.select("topic_id", "topic").union(lanes.select("topic_id", "topic"))
    named = materialise(both.where("topic_id is not null").withColumnRenamed("topic", "topic_of_id").distinct())
    found = deliveries.join(sql.broadcast(named), "topic_id", "left")
    deliveries = found.withColumn("topic", sql.coalesce("topic", "topic_of_id")).drop("topic_of_id")
    tables = (messages, deliveries, subscriptions, lanes)
    return Records(window, *(table if topic is None else table.where(sql.col("topic") == topic) for table in tables))


def filters_in_force(subscriptions: DataFrame, judged_from: int = 0) -> dict[str, list[FilterInForce]]:
    """Return the versions of all filters by topic; they are few enough for the memory of Spark's driver.

    Subscriptions that were deleted before *judged_from* (ms) are left out, because each would cost time per message.
    """
    rows = subscriptions.where("part in ('filter', 'removed')").collect()
    removed = {(row.topic, row.ordinal): row.changed_at for row in rows if row.part == "removed"}
    versions = defaultdict(list)
    for row in rows:
        if row.part == "filter" and removed.get((row.topic, row.ordinal), judged_from) >= judged_from:
            versions[row.topic, row.ordinal].append(row)
    found: dict[str, list[FilterInForce]] = defaultdict(list)
    for (topic, ordinal), history in sorted(versions.items()):
        history.sort(key=lambda row: row.since)
        ends = [*(row.since for row in history[1:]), FOREVER]
        for row, until in zip(history, ends, strict=True):
            judged = row.filter is not None and is_function(json.loads(row.filter))
            of_version = (judged, row.version or 0, row.changed_at)
            gone = removed.get((topic, ordinal))
            found[topic].append(FilterInForce(ordinal, row.filter, row.since, until, gone, *of_version))
    return dict(found)


def policies(subscriptions: DataFrame) -> DataFrame:
    """Return each version of each subscription's retry settings. It is valid from ``valid_from`` to ``valid_to``.

    ``policy`` is a text that equal settings share. For a group (``is_pulled``) only the number of retries counts.
    """
    settings = subscriptions.where("part = 'settings'")
    following = sql.lead("changed_at", 1, FOREVER).over(Window.partitionBy(*LANE).orderBy("version"))
    policy = sql.concat_ws(
        "|", "strategy", "max_retries", sql.coalesce(sql.col("interval_s"), sql.lit(0)), "interval_s_max"
    )
    return settings.select(
        *LANE,
        "strategy",
        "max_retries",
        "interval_s",
        "interval_s_max",
        "timeout_s",
        policy.alias("policy"),
        (sql.col("protocol") == Protocol.PULL.value).alias("is_pulled"),
        sql.col("changed_at").alias("valid_from"),
        following.alias("valid_to"),
    )


def least_delays(policies: DataFrame, time_scale: float) -> DataFrame:
    """Return the shortest wait after each failed attempt under each policy: (policy, attempt, least_ms).

    The core computes the waits; they are divided by *time_scale*. The rows of a policy end with its last retry, or when
    the sum of its waits exceeds the longest life of a message.
    """
    rows = list[tuple[str, int, int]]()
    distinct = policies.select("policy", "strategy", "max_retries", "interval_s", "interval_s_max").distinct()
    for row in distinct.collect():
        policy = RetryPolicy(Strategy(row.strategy), row.max_retries, row.interval_s, row.interval_s_max)
        waited_ms = 0
        for failures in range(1, row.max_retries + 1):
            wait_s = delay_s(policy, failures, BACKOFF_INTERVAL_S_RANGE[0])
            assert wait_s is not None
            least_ms = max(1, round(wait_s / time_scale * 1000))
            rows.append((row.policy, failures, least_ms))
            waited_ms += least_ms
            if waited_ms > LIFE_MS:
                break
    return policies.sparkSession.createDataFrame(rows, "policy string, attempt int, least_ms bigint")


def interventions(lanes: DataFrame) -> DataFrame:
    """Return the changes of lanes that cancel a planned attempt: (topic, ordinal, moved_at, state).

    They are suspensions, and new generations of lanes that were not active. A new generation is written when a person
    retries, skips, pauses or resumes a lane, or when the sweep restarts it. ``state`` is the lane's new state.
    """
    anew = sql.col("previous_state") != LaneState.ACTIVE.value
    anew = anew & (sql.col("generation") != sql.col("previous_generation"))
    moved = anew | (sql.col("state") == LaneState.SUSPENDED.value)
    return lanes.where(moved).select(*LANE, sql.col("changed_at").alias("moved_at"), "state")


def closed_intervals(lanes: DataFrame, removal_ms: int = LIFE_MS) -> DataFrame:
    """Return the intervals in which lanes were closed (held back messages): (topic, ordinal, begins_at, ends_at).

    A long interval may be several adjacent rows, one for each state of the lane. A retrying lane is open. Changes
    within one second have no order in the records, so only their net effect counts. A removed lane counts as closed for
    *removal_ms*, by default the longest life of a message. Then it counts as open, because no message is left to push.
    """
    open_states = [LaneState.ACTIVE.value, LaneState.RETRYING.value]
    was_open, is_open = (sql.col(name).isin(open_states) for name in ("previous_state", "state"))
    was_removed, is_removed = (sql.col(name) == LaneState.REMOVED.value for name in ("previous_state", "state"))
    step = was_open.cast("int") - is_open.cast("int")
    steps = lanes.select(*LANE, "changed_at", step.alias("step"), was_open.alias("was_open"))
    of_second = sql.struct(sql.sum("step").alias("step"), sql.max("was_open").alias("was_open"))
    firsts = steps.groupBy(*LANE, "changed_at").agg(of_second.alias("of_second"))
    firsts = firsts.groupBy(*LANE).agg(sql.min_by("of_second", "changed_at").alias("first"))
    before = firsts.where("first.step < 0 or not first.was_open")
    before = before.select(*LANE, sql.lit(0).alias("changed_at"), sql.lit(1).alias("step"))
    over = lanes.where(is_removed & ~was_removed).select(*LANE, sql.col("changed_at") + removal_ms, sql.lit(-1))
    steps = steps.drop("was_open").union(before).union(over).where("step <> 0")
    seconds = steps.groupBy(*LANE, "changed_at").agg(sql.sum("step").alias("step"))
    order = Window.partitionBy(*LANE).orderBy("changed_at")
    intervals = seconds.select(
        *LANE,
        sql.col("changed_at").alias("begins_at"),
        sql.lead("changed_at", 1, FOREVER).over(order).alias("ends_at"),
        sql.sum("step").over(order.rowsBetween(Window.unboundedPreceding, 0)).alias("closed"),
    )
    return intervals.where("closed > 0").drop("closed")
