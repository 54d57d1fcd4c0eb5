"""Checks attempts and ends against the schedule of the retry strategy, and attempts against the expiry."""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql
from tagcast.model import EntryState, LaneState, Strategy

from glue_jobs.auditing.audit_entries import ENTRY, Terms, end_is, violation
from glue_jobs.auditing.history import LANE
from glue_jobs.io.materialised import materialise

TIMEOUT_S_MAX = 30
"""The longest timeout that the API allows, for subscriptions whose timeout is unknown."""


def with_bounds(rows: DataFrame, policies: DataFrame, terms: Terms, begins: str, ends: str) -> DataFrame:
    """Return *rows*, one per entry, with bounds for the number of retries and for the timeout.

    The bounds come from all settings in force between the instants in the columns *begins* and *ends*. If the settings
    changed, each bound is the most lenient one. A bound is null if the settings are unknown.
    """
    columns = ("max_retries", "timeout_s", "is_pulled", "valid_from", "valid_to")
    known = policies.select(*(sql.col(name).alias(f"of_{name}") for name in LANE), *columns)
    is_valid = (sql.col("valid_from") <= sql.coalesce(sql.col(ends), sql.lit(terms.as_of)) + terms.blur_ms) & (
        sql.col("valid_to") >= sql.col(begins) - terms.blur_ms
    )
    is_own = reduce(and_, (sql.col(name) == sql.col(f"of_{name}") for name in LANE))
    joined = rows.join(sql.broadcast(known), is_own & is_valid, "left")
    return joined.groupBy(*rows.columns).agg(
        sql.max("max_retries").alias("retries_most"),
        sql.min("max_retries").alias("retries_least"),
        sql.max("timeout_s").alias("timeout_s"),
        sql.coalesce(sql.bool_or("is_pulled"), sql.lit(False)).alias("is_pulled"),
    )


def limits(entries: DataFrame, policies: DataFrame, interventions: DataFrame, terms: Terms) -> DataFrame:
    """Return violations of the limits of attempts.

    These are attempts before the acceptance or after the expiry, too many attempts, entries delivered without an
    attempt, and entries discarded or expired too early.
    """
    last = sql.greatest("last_attempt_at", "last_failure_at")
    made = sql.greatest(sql.coalesce("attempts", sql.lit(0)), sql.coalesce("attempts_waiting", sql.lit(0)))
    suspect = (last > sql.col("expires_at") + terms.skew_ms) | (made > 1) | end_is(EntryState.DISCARDED)
    columns = ("accepted_at", "expires_at", "ended_at", "last_at", "made", "attempts", "dropped", "end")
    rows = entries.withColumns({"last_at": last, "made": made}).where(suspect).select(*ENTRY, *columns)
    bounded = materialise(with_bounds(rows, policies, terms, "accepted_at", "ended_at"))
    timeout_ms = sql.coalesce("timeout_s", sql.lit(TIMEOUT_S_MAX)) * 1000
    # A message pulled in time may be acknowledged after expiry; no timeout bounds that.
    late = bounded.where(
        ~sql.col("is_pulled") & (sql.col("last_at") > sql.col("expires_at") + timeout_ms + terms.skew_ms)
    )
    after = (sql.col("last_at") - sql.col("expires_at")).alias("after")
    found = violation("after_expiry", late, sql.col("last_at"), "attempted ", after, " ms after its life ended")
    alone = entries.where(end_is(EntryState.DELIVERED) & (sql.coalesce("attempts", sql.lit(0)) < 1))
    found = found.unionByName(
        violation("unattempted", alone, sql.col("ended_at"), "delivered, and no attempt is recorded")
    )
    first = sql.least("last_attempt_at", "last_failure_at")
    early = entries.where(first < sql.col("accepted_at") - terms.skew_ms)
    before = (sql.col("accepted_at") - first).alias("before")
    found = found.unionByName(
        violation("before_acceptance", early, first, "attempted ", before, " ms before its message was accepted")
    )
    suspensions = interventions.where(sql.col("state") == LaneState.SUSPENDED.value).groupBy(*LANE).count()
    # A 410 suspends the lane and leaves its delivery pending, so each suspension may add an attempt.
    allowed = bounded.join(sql.broadcast(suspensions), list(LANE), "left")
    most = sql.col("retries_most") + 1 + sql.coalesce("count", sql.lit(0))
    # A receive from the group's queue counts as an attempt, even if its pull fails before a member sees the message.
    many = allowed.where(~sql.col("is_pulled") & (sql.col("made") > most))
    found = found.unionByName(
        violation("too_many_attempts", many, sql.col("last_at"), sql.col("made"), " attempts, allowed are ", most)
    )
    given_up = bounded.where(
        end_is(EntryState.DISCARDED) & sql.col("dropped").isNull() & (sql.col("attempts") <= sql.col("retries_least"))
    )
    detail = (sql.col("attempts"), " attempts, and ", sql.col("retries_least"), " retries were allowed")
    found = found.unionByName(violation("discarded_early", given_up, sql.col("ended_at"), *detail))
    unborn = entries.where(end_is(EntryState.EXPIRED) & (made == 0))
    unborn = unborn.where(sql.col("ended_at") + terms.blur_ms < sql.col("expires_at"))
    left = sql.col("expires_at") - sql.col("ended_at")
    return found.unionByName(
        violation("expired_early", unborn, sql.col("ended_at"), "expired with ", left, " ms of its life left")
    )


def attempts(deliveries: DataFrame, entries: DataFrame) -> DataFrame:
    """Return the recorded attempts of entries that were in a backlog: (entry, attempt, at, place, waited_first).

    ``place`` is the position in the backlog, null if the attempt ended the entry. ``waited_first`` is true if the entry
    had this position before its first attempt.
    """
    waits = deliveries.where((sql.col("state") == EntryState.BLOCKED.value) & sql.col("removed_by").isNull())
    place = sql.col("position").cast("decimal(20,0)")
    waits = waits.select(*ENTRY, "attempts", sql.col("last_attempt_at").alias("at"), place.alias("place"))
    stood = waits.where("attempts = 0").groupBy(*ENTRY).agg(sql.min("place").alias("stood_at"))
    ends = entries.where("ends > 0 and waits > 0 and attempts > 0 and last_attempt_at is not null")
    ends = ends.select(*ENTRY, "attempts", sql.col("last_attempt_at").alias("at"))
    ends = ends.withColumn("place", sql.lit(None).cast("decimal(20,0)"))
    both = waits.where("attempts > 0").unionByName(ends)
    each = both.groupBy(*ENTRY, sql.col("attempts").alias("attempt")).agg(
        sql.min("at").alias("at"), sql.min("place").alias("place")
    )
    joined = each.join(stood, list(ENTRY), "left")
    first = sql.coalesce(sql.col("stood_at") == sql.col("place"), sql.lit(False))
    return joined.withColumn("waited_first", first).drop("stood_at")


def find_unrecorded(attempts: DataFrame, entries: DataFrame, policies: DataFrame) -> DataFrame:
    """Return violations: ended entries with an unrecorded failed attempt. They show that the archive is incomplete.

    Entries of groups are not checked, because their failed attempts have no records.
    """
    groups = policies.where("is_pulled").select(*LANE).distinct()
    pushed = entries.join(groups, list(LANE), "left_anti")
    ended = pushed.where("matched = 1 and ends = 1 and attempts > 1").select(*ENTRY, "attempts", "ended_at")
    seen = ended.join(attempts, list(ENTRY), "left").where("attempt is null or attempt < attempts")
    counted = seen.groupBy(*ENTRY, "attempts", "ended_at").agg(sql.count("attempt").alias("recorded"))
    alone = ended.join(counted, list(ENTRY), "left_anti").withColumn("recorded", sql.lit(0))
    found = counted.where("recorded < attempts - 1").unionByName(alone.select(*counted.columns))
    detail = (sql.col("recorded"), " of ", sql.col("attempts") - 1, " failed attempts are recorded")
    return violation("attempt_unrecorded", found, sql.col("ended_at"), *detail)


def gaps(attempts: DataFrame, terms: Terms) -> DataFrame:
    """Return each attempt whose next attempt is recorded, too.

    ``next_attempt`` is the number of the next attempt, ``next_at`` its instant, and ``gap_ms`` the time between the two
    attempts.
    """
    order = Window.partitionBy(*ENTRY).orderBy("attempt")
    following = attempts.withColumns(
        {"next_at": sql.lead("at").over(order), "next_attempt": sql.lead("attempt").over(order)}
    )
    following = following.where("next_attempt = attempt + 1 and at is not null and next_at is not null")
    return following.withColumn("gap_ms", sql.col("next_at") - sql.col("at"))


def find_early(
    gaps: DataFrame, policies: DataFrame, delays: DataFrame, interventions: DataFrame, terms: Terms
) -> tuple[DataFrame, DataFrame]:
    """Return the gaps that are too short, as violations, and all gaps that were checked.

    A gap is the time between two attempts of one entry. It is too short if it is below the policy's shortest wait in
    *delays*, and no intervention lies in the gap. Under INDEPENDENT_RETRY all gaps are checked, otherwise only those of
    an entry that certainly was the head of its lane. It was the head from its second attempt on, at position 0 of a
    new backlog, and under BACKOFF_RETRY if it waited in the backlog before its first attempt.
    """
    valid = (sql.col("valid_from") <= sql.col("next_at") + terms.blur_ms) & (
        sql.col("valid_to") >= sql.col("at") - terms.blur_ms
    )
    known = policies.select(*LANE, "policy", "strategy", "valid_from", "valid_to")
    joined = gaps.join(sql.broadcast(known), list(LANE)).where(valid)
    backoff, alone = (
        sql.min((sql.col("strategy") == strategy.value).cast("int")).alias(name)
        for strategy, name in ((Strategy.BACKOFF_RETRY, "backoff"), (Strategy.INDEPENDENT_RETRY, "alone"))
    )
    least = joined.join(sql.broadcast(delays), ["policy", "attempt"])
    judged = least.groupBy(*gaps.columns).agg(sql.min("least_ms").alias("least_ms"), backoff, alone)
    head = (
        (sql.col("attempt") > 1)
        | (sql.col("alone") == 1)
        | (sql.col("place") == 0)
        | (sql.col("waited_first") & (sql.col("backoff") == 1))
    )
    judged = judged.where(head)
    short = judged.where(sql.col("gap_ms") + terms.skew_ms < sql.col("least_ms"))
    moved = interventions.select(*LANE, "moved_at")
    inside = (sql.col("moved_at") >= sql.col("at") - terms.blur_ms) & (
        sql.col("moved_at") <= sql.col("next_at") + terms.skew_ms
    )
    excused = short.join(moved, list(LANE)).where(inside).select(*ENTRY, "attempt").distinct()
    left = short.join(excused, [*ENTRY, "attempt"], "left_anti")
    detail = (
        "attempt ",
        sql.col("next_attempt"),
        " after ",
        sql.col("gap_ms"),
        " ms, the least is ",
        sql.col("least_ms"),
    )
    return violation("too_soon", left, sql.col("next_at"), *detail), judged


def find_unrequested(
    entries: DataFrame, subscriptions: DataFrame, lanes: DataFrame, interventions: DataFrame, terms: Terms
) -> DataFrame:
    """Return violations: cancelled entries without a deletion of their subscription or an intervention on its lane.

    Entries that a filter function ended are violations, too, if their subscription never had a filter function.
    """
    removed = subscriptions.where("part = 'removed'").select(*LANE, "changed_at")
    removed = removed.union(lanes.where(sql.col("state") == LaneState.REMOVED.value).select(*LANE, "changed_at"))
    removed = removed.groupBy(*LANE).agg(sql.min("changed_at").alias("gone_at"))
    cancelled = entries.where(end_is(EntryState.CANCELLED)).join(sql.broadcast(removed), list(LANE), "left")
    kept = cancelled.where(sql.col("gone_at").isNull() | (sql.col("gone_at") > sql.col("ended_at") + terms.blur_ms))
    near = sql.abs(sql.col("moved_at") - sql.col("ended_at")) <= terms.blur_ms
    skipped = kept.join(interventions.drop("state"), list(LANE)).where(near).select(*ENTRY).distinct()
    found = kept.join(skipped, list(ENTRY), "left_anti")
    wrong = violation("cancelled_unasked", found, sql.col("ended_at"), "neither a skip nor a deletion")
    functions = subscriptions.where("part = 'filter' and get_json_object(filter, '$.kind') = 'function'")
    judged = entries.where(end_is(EntryState.FILTERED) | (sql.col("dropped") == 1))
    alone = judged.join(sql.broadcast(functions.select(*LANE).distinct()), list(LANE), "left_anti")
    reason = "no filter function was asked"
    return wrong.unionByName(violation("filtered_unasked", alone, sql.col("ended_at"), reason))
