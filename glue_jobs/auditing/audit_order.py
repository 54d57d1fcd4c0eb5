"""Checks that no message overtook an earlier pending message of its lane, as far as the records show the order."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql
from tagcast.model import EntryState, Strategy

from glue_jobs.auditing.audit_entries import ENTRY, HOUR_MS, Terms, end_is, list_entries, violation
from glue_jobs.auditing.history import LANE, LIFE_MS
from glue_jobs.io import arguments

RUN_MS = 120_000
"""A worker runs two minutes at most. So a filter function's verdict may be this much older than the recorded end."""


def ordered_lanes(policies: DataFrame) -> DataFrame:
    """Return the lanes that always used BACKOFF_RETRY, because other strategies promise no order.

    Groups are left out, because the order of their pulls is not recorded.
    """
    backoff = (sql.col("strategy") == Strategy.BACKOFF_RETRY.value) & ~sql.col("is_pulled")
    always = policies.groupBy(*LANE).agg(sql.min(backoff.cast("int")).alias("always"))
    return always.where("always = 1").select(*LANE)


def backlog(entries: DataFrame, deliveries: DataFrame, lanes: DataFrame, terms: Terms) -> DataFrame:
    """Return the entries that joined the backlog of an ordered lane: (entry, place, stood_at, tried_at, pending_until).

    ``place`` is the position in the backlog. The other columns are instants in ms: the entry joined the backlog at
    ``stood_at``, had its next attempt at ``tried_at``, and was surely pending until ``pending_until``. ``tried_at`` is
    null if the entry had no attempt in the backlog.
    """
    waits = deliveries.where((sql.col("state") == EntryState.BLOCKED.value) & sql.col("removed_by").isNull())
    place = sql.col("position").cast("decimal(20,0)")
    stood = waits.groupBy(*ENTRY).agg(sql.min(place).alias("place"), sql.min("changed_at").alias("stood_at"))
    failed = waits.where("attempts > 0").select(*ENTRY, sql.col("last_attempt_at").alias("tried_at"))
    ended = entries.where("waits > 0")
    final = ended.where("attempts > 0").select(*ENTRY, sql.col("last_attempt_at").alias("tried_at"))
    tries = failed.unionByName(final).join(stood.select(*ENTRY, "stood_at"), list(ENTRY))
    tries = tries.where(sql.col("tried_at") >= sql.col("stood_at") + terms.blur_ms)
    first = tries.groupBy(*ENTRY).agg(sql.min("tried_at").alias("tried_at"))
    by_push = end_is(EntryState.DELIVERED) | end_is(EntryState.DISCARDED)
    by_function = end_is(EntryState.FILTERED) | (sql.col("dropped") == 1)
    until = sql.when(by_function, sql.col("ended_at") - RUN_MS).when(
        by_push, sql.coalesce("last_attempt_at", "ended_at")
    )
    # Nothing is pending after its expiry, even if the end is written later.
    until = until.when(end_is(EntryState.EXPIRED), sql.least("ended_at", "expires_at")).otherwise(sql.col("ended_at"))
    until = sql.coalesce(until, "removed_at", sql.lit(terms.as_of))
    ended = ended.select(*ENTRY, until.alias("pending_until"))
    all_of = stood.join(ended, list(ENTRY)).join(first, list(ENTRY), "left")
    return all_of.join(sql.broadcast(lanes), list(LANE), "left_semi")


def find_out_of_order(backlog: DataFrame, closed: DataFrame, terms: Terms) -> DataFrame:
    """Return violations: entries attempted while an earlier entry of the same backlog was pending.

    A window function of Spark finds suspects, which were attempted before the end of an earlier entry. A join finds the
    earlier entries that a suspect overtook. An earlier entry counts only if it was in the same backlog at the suspect's
    attempt. Each interval in *closed* begins a new backlog.
    """
    opened = closed.select(*LANE, sql.col("begins_at").alias("stood_at"))
    events = backlog.select(*backlog.columns, sql.lit(0).alias("begins"))
    marks = opened.withColumn("begins", sql.lit(1))
    both = events.unionByName(marks, allowMissingColumns=True)
    order = Window.partitionBy(*LANE).orderBy("stood_at", sql.desc("begins"))
    known = both.withColumn("life", sql.sum("begins").over(order.rowsBetween(Window.unboundedPreceding, 0)))
    before = Window.partitionBy(*LANE, "life").orderBy("place", "message_id").rowsBetween(Window.unboundedPreceding, -1)
    known = known.where("begins = 0").withColumn("earlier_until", sql.max("pending_until").over(before))
    suspect = known.where(sql.col("tried_at") + terms.skew_ms < sql.col("earlier_until"))
    earlier = backlog.select(
        *LANE,
        sql.col("message_id").alias("earlier_id"),
        sql.col("place").alias("earlier_place"),
        sql.col("stood_at").alias("earlier_stood_at"),
        sql.col("pending_until").alias("until"),
    )
    pairs = suspect.join(earlier, list(LANE)).where(
        (sql.col("earlier_place") < sql.col("place"))
        & (sql.col("earlier_stood_at") + terms.blur_ms <= sql.col("tried_at"))
        & (sql.col("tried_at") + terms.skew_ms < sql.col("until"))
    )
    named = pairs.groupBy(*ENTRY, "tried_at").agg(
        sql.min(sql.col("earlier_id").cast("decimal(20,0)")).alias("overtaken")
    )
    detail = ("tried while ", sql.lpad(sql.col("overtaken").cast("string"), 20, "0"), " was pending before it")
    return violation("out_of_order", named, sql.col("tried_at"), *detail)


def closed_hours(closed: DataFrame, window: arguments.Window) -> DataFrame:
    """Return the intervals in *closed*, repeated for each ``hour`` that they touch. Hours are counted since 1970.

    Only hours in which messages of the window can be pushed are returned. They begin with the window, and reach beyond
    its end by the longest life of a message.
    """
    begins = sql.greatest("begins_at", sql.lit(window.first_at))
    until = sql.least("ends_at", sql.lit(window.end_at + LIFE_MS))
    hours = sql.sequence(sql.floor(begins / HOUR_MS), sql.floor(until / HOUR_MS))
    return closed.where(begins <= until).withColumn("hour", sql.explode(hours))


def find_overtaken(entries: DataFrame, hours: DataFrame, policies: DataFrame, terms: Terms) -> DataFrame:
    """Return violations: entries that a first round delivered while their lane was closed, under any strategy.

    A first round reads the lanes after it begins, so it pushes nothing to a lane that was closed before. Under
    INDEPENDENT_RETRY a round may push to a lane that has lost contact. Such a lane opens at the end of its worker's
    run. So under this strategy, pushes in the last two minutes before the lane opens are no violations.
    """
    direct = entries.where(end_is(EntryState.DELIVERED) & sql.col("round_at").isNotNull())
    direct = direct.withColumn("hour", sql.floor(sql.col("round_at") / HOUR_MS))
    probing = policies.where(sql.col("strategy") == Strategy.INDEPENDENT_RETRY.value).select(*LANE).distinct()
    probing = probing.withColumn("opens_within", sql.lit(RUN_MS))
    direct = direct.join(sql.broadcast(probing), list(LANE), "left")
    last = sql.col("ends_at") - sql.coalesce("opens_within", sql.lit(terms.skew_ms))
    inside = sql.col("round_at").between(sql.col("begins_at") + terms.blur_ms, last)
    inside &= sql.col("last_attempt_at") <= last
    found = direct.join(sql.broadcast(hours), [*LANE, "hour"]).where(inside).dropDuplicates(list(ENTRY))
    return violation("overtaken", found, sql.col("round_at"), "pushed at once while its lane was closed")


def disorder(deliveries: DataFrame, lanes: DataFrame) -> dict[str, int]:
    """Count the successful deliveries of ordered lanes that were never in a backlog, and those that overtook others.

    ``most_ms`` is the longest time by which a message overtook an earlier one. The queue decides the order of these
    deliveries, and no record shows that order. Messages of two producers may be queued in another order than accepted.
    So the counts are not violations.
    """
    entries = list_entries(deliveries.join(sql.broadcast(lanes), list(LANE), "left_semi"))
    direct = entries.where(end_is(EntryState.DELIVERED) & (sql.col("waits") == 0))
    order = Window.partitionBy(*LANE).orderBy("message_id").rowsBetween(Window.unboundedPreceding, -1)
    seen = direct.withColumn("latest", sql.max("last_attempt_at").over(order))
    late = sql.col("latest") - sql.col("last_attempt_at")
    row = seen.agg(
        sql.count(sql.lit(1)).alias("direct_deliveries"),
        sql.sum((late > 0).cast("int")).alias("before_an_earlier_one"),
        sql.max(sql.when(late > 0, late)).alias("most_ms"),
    ).collect()[0]
    return {name: int(value or 0) for name, value in row.asDict().items()}
