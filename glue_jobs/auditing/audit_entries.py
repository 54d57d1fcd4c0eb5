"""Checks that each entry has exactly one recorded end. An entry is a message and a subscription that it matched."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from tagcast.filters.function_filter import FILTER_ERROR
from tagcast.model import EntryState

from glue_jobs.auditing.history import GRANULARITY_MS

HOUR_MS = 3_600_000
ENDED_WITHIN_MS = 8 * HOUR_MS
"""The longest time from a message's expiry to the end of its last delivery.

The search (`tagcast.repairing.search`) writes overdue ends from one hour after the expiry on, in passes 6 h apart.
"""
ENTRY = ("topic", "message_id", "ordinal")
ENDS = tuple(state.value for state in EntryState if state.is_terminal)


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of an audit. The archive is complete up to *as_of* (ms since 1970), and clocks may differ by *skew_ms*.

    *time_scale* is the factor by which the audited stack shortens all waits.
    """

    as_of: int
    skew_ms: int
    time_scale: float = 1.0

    @property
    def over_before(self) -> int:
        """If a message expired at this instant (ms) or before, each of its deliveries must have an end."""
        return self.as_of - round(ENDED_WITHIN_MS / min(self.time_scale, 60.0))

    @property
    def blur_ms(self) -> int:
        """The maximum difference between the recorded and the real time of a row's change, in milliseconds."""
        return GRANULARITY_MS + self.skew_ms


def violation(kind: str, rows: DataFrame, at: Column, *detail: str | Column) -> DataFrame:
    """Return *rows* as violations of *kind* at the instant *at*. The parts of *detail* are joined to one text."""
    parts = [sql.lit(part) if isinstance(part, str) else part.cast("string") for part in detail]
    return rows.select(
        sql.lit(kind).alias("kind"),
        *ENTRY,
        at.cast("bigint").alias("at"),
        sql.concat(*(sql.coalesce(part, sql.lit("?")) for part in parts)).alias("detail"),
    )


def _end_number() -> Column:
    """Return a column: the place of the state in ``ENDS``, from 1, or null. Spark groups numbers faster than texts."""
    number = sql.lit(None).cast("int")
    for place, state in enumerate(ENDS, 1):
        number = sql.when(sql.col("state") == state, place).otherwise(number)
    return number


def entries(messages: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Return one row for each entry (message and ordinal) in the records *messages* or *deliveries*.

    ``matched`` is 1 if the record of the message lists the ordinal, or if the entry is a late entry; otherwise it is
    null. Both kinds of records are grouped instead of joined, so that Spark shuffles fixed-width columns only once.
    """
    matched = messages.select(
        "topic", "message_id", sql.explode("matched").alias("ordinal"), "accepted_at", "expires_at"
    )
    matched = matched.withColumn("matched", sql.lit(1))
    return _by_entry(matched.unionByName(_rows_of_deliveries(deliveries), allowMissingColumns=True))


def list_entries(deliveries: DataFrame) -> DataFrame:
    """Return one row for each entry in the records *deliveries*, with the columns of :func:`entries`."""
    return _by_entry(_rows_of_deliveries(deliveries))


def _rows_of_deliveries(deliveries: DataFrame) -> DataFrame:
    ended, waited = sql.col("state").isin(*ENDS), (sql.col("state") == EntryState.BLOCKED.value)
    gone = sql.col("removed_by").isNotNull()
    # A large row may have no room for outcomes. Only a filter function that failed ends a delivery without an attempt.
    unnamed = (sql.col("state") == EntryState.DISCARDED.value) & (sql.col("attempts") == 0) & sql.isnull("outcome")
    return deliveries.select(
        *ENTRY,
        "accepted_at",
        "expires_at",
        "attempts",
        "last_attempt_at",
        "changed_at",
        "round_at",
        _end_number().alias("end"),
        sql.when(ended & ~gone, 1).alias("ended"),
        sql.when(waited & ~gone, 1).alias("waited"),
        sql.when(gone, 1).alias("removed"),
        sql.when(sql.col("added_at").isNotNull(), 1).alias("matched"),
        sql.when((sql.col("outcome") == FILTER_ERROR) | unnamed, 1).alias("dropped"),
    )


def _by_entry(together: DataFrame) -> DataFrame:
    def when(flag: str, column: str) -> Column:
        return sql.when(sql.col(flag) == 1, sql.col(column))

    return together.groupBy(*ENTRY).agg(
        sql.max("matched").alias("matched"),
        sql.min("accepted_at").alias("accepted_at"),
        sql.max("expires_at").alias("expires_at"),
        sql.count("ended").alias("ends"),
        sql.max("end").alias("end"),
        sql.max(when("ended", "attempts")).alias("attempts"),
        sql.max(when("ended", "last_attempt_at")).alias("last_attempt_at"),
        sql.max(when("ended", "changed_at")).alias("ended_at"),
        sql.max(when("ended", "round_at")).alias("round_at"),
        sql.max(when("ended", "dropped")).alias("dropped"),
        sql.count("waited").alias("waits"),
        sql.min(when("waited", "changed_at")).alias("waits_since"),
        sql.max(when("waited", "attempts")).alias("attempts_waiting"),
        sql.max(when("waited", "last_attempt_at")).alias("last_failure_at"),
        sql.max(when("removed", "changed_at")).alias("removed_at"),
    )


def find_unusual(entries: DataFrame, closed_hours: DataFrame, terms: Terms) -> DataFrame:
    """Return the entries that could break a promise, each with ``usual`` 0, and one row for all usual entries.

    In this row, ``usual`` is the number of usual entries, which need no other check. A usual entry matched, its only
    attempt delivered it between acceptance and expiry, and its lane was open in the hour of its first round.
    *closed_hours* has the hours in which lanes were closed.
    """
    closed = closed_hours.select("topic", "ordinal", "hour").distinct().withColumn("is_closed", sql.lit(True))
    hour = sql.floor(sql.col("round_at") / HOUR_MS)
    marked = entries.withColumn("hour", hour).join(sql.broadcast(closed), ["topic", "ordinal", "hour"], "left")
    usual = (sql.col("matched") == 1) & (sql.col("ends") == 1) & (sql.col("waits") == 0) & end_is(EntryState.DELIVERED)
    usual &= (sql.col("attempts") == 1) & sql.col("dropped").isNull() & sql.col("is_closed").isNull()
    in_life = sql.col("last_attempt_at").between(
        sql.col("accepted_at") - terms.skew_ms, sql.col("expires_at") + terms.skew_ms
    )
    usual &= sql.coalesce(in_life, sql.lit(True))
    usual = sql.coalesce(usual, sql.lit(False))
    keys = (sql.when(~usual, sql.col(name)).alias(name) for name in ENTRY)
    rest = [name for name in entries.columns if name not in ENTRY]
    rows = marked.select(*keys, *rest, usual.cast("int").alias("usual"))
    return rows.groupBy(*ENTRY).agg(*(sql.first(name).alias(name) for name in rest), sql.sum("usual").alias("usual"))


def end_is(state: EntryState) -> Column:
    """Return the condition that an entry ended in *state*."""
    return sql.col("end") == ENDS.index(state.value) + 1


def _is_open() -> Column:
    return (sql.col("ends") == 0) & sql.col("removed_at").isNull()


def conservation(entries: DataFrame, terms: Terms) -> DataFrame:
    """Return violations: entries with several ends, without an end long after the expiry, or deleted while pending."""
    matched = entries.where("matched = 1")
    twice = violation(
        "ended_twice", matched.where("ends > 1"), sql.col("ended_at"), sql.col("ends"), " ends are recorded"
    )
    gone = matched.where("ends = 0 and removed_at is not null")
    removed = violation("removed_pending", gone, sql.col("removed_at"), "its row was removed while it was pending")
    overdue = matched.where(_is_open() & (sql.col("expires_at") <= terms.over_before))
    never = violation("never_ended", overdue, sql.col("expires_at"), "it expired, and no end is recorded")
    return twice.unionByName(removed).unionByName(never)


def find_unexpected(entries: DataFrame, messages: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Return violations: deliveries without an archived message, or to a subscription that the message did not match.

    A late entry is a violation only without an archived message, because a message's record lists no late entries.
    """
    stray = entries.where("matched is null and (ends > 0 or waits > 0)")
    stray = stray.select(*ENTRY, sql.coalesce("ended_at", "waits_since").alias("at"), sql.lit(False).alias("is_late"))
    late = deliveries.where("added_at is not null")
    late = late.select(*ENTRY, sql.col("added_at").alias("at"), sql.lit(True).alias("is_late"))
    known = messages.select("topic", "message_id").withColumn("known", sql.lit(1))
    joined = stray.unionByName(late).join(known, ["topic", "message_id"], "left")
    at, unmatched = sql.col("at"), joined.where("known = 1 and not is_late")
    found = violation("unmatched", unmatched, at, "the message did not match this subscription")
    return found.unionByName(violation("orphan", joined.where("known is null"), at, "no record of the message"))


def counts(entries: DataFrame, usual: int, terms: Terms) -> dict[str, int]:
    """Return the certificate's counts: the number of ``entries``, and the numbers by end.

    ``within_life`` counts entries without an end that need none yet, ``waited`` ended entries that were in a backlog.
    *usual* is the number of delivered entries that are not in *entries* (:func:`find_unusual`).
    """
    matched = sql.col("matched") == 1
    alive = matched & _is_open() & (sql.col("expires_at") > terms.over_before)
    sums = [
        sql.sum(matched.cast("int")).alias("entries"),
        sql.sum(alive.cast("int")).alias("within_life"),
        sql.sum((matched & (sql.col("ends") > 0) & (sql.col("waits") > 0)).cast("int")).alias("waited"),
    ]
    sums += [sql.sum((matched & (sql.col("end") == n + 1)).cast("int")).alias(state) for n, state in enumerate(ENDS)]
    row = entries.agg(*sums).collect()[0]
    found = {name: int(value or 0) for name, value in row.asDict().items()}
    also = ("entries", EntryState.DELIVERED.value)
    return {name: value + usual if name in also else value for name, value in found.items()}
