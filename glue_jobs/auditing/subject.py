"""A certificate about the messages with one property, such as those of one customer, and about their deliveries."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from glue_jobs.auditing import audit_entries
from glue_jobs.auditing.audit_entries import ENDS, Terms
from glue_jobs.io.materialised import materialise
from glue_jobs.io.storage import has_property

LISTED_MAX = 1_000
MESSAGE = ("topic", "message_id")


@dataclass(frozen=True, slots=True)
class Subject:
    """The messages whose property *name* has the value *value*."""

    name: str
    value: str

    def messages(self, messages: DataFrame) -> DataFrame:
        """Return the rows of *messages* that belong to the subject."""
        return messages.where(has_property(self.name, self.value))

    def only(self, found: DataFrame, messages: DataFrame) -> DataFrame:
        """Return the violations in *found* that concern the subject's messages; *messages* are all messages."""
        return found.join(self.messages(messages).select(*MESSAGE), list(MESSAGE), "left_semi").select(*found.columns)

    def summarise(
        self, messages: DataFrame, deliveries: DataFrame, subscriptions: DataFrame, terms: Terms
    ) -> dict[str, object]:
        """Return the certificate's part about the subject: counts by end, and at most ``LISTED_MAX`` messages."""
        mine = materialise(self.messages(messages))
        happened = deliveries.join(mine.select(*MESSAGE), list(MESSAGE), "left_semi")
        entries = materialise(audit_entries.entries(mine, happened))
        settings = subscriptions.where("part = 'settings'")
        names = settings.groupBy("topic", "ordinal").agg(sql.max_by("subscription", "version").alias("subscription"))
        each = sql.struct("subscription", "ordinal", "end", "attempts", "ended_at")
        ended = entries.where("matched = 1").join(names, ["topic", "ordinal"], "left")
        by_message = ended.groupBy(*MESSAGE).agg(sql.sort_array(sql.collect_list(each)).alias("deliveries"))
        accepted = mine.select(*MESSAGE, "accepted_at", "tags")
        listed = accepted.join(by_message, list(MESSAGE), "left").orderBy(*MESSAGE).limit(LISTED_MAX)
        counts = {"messages": mine.count(), **audit_entries.counts(entries, 0, terms)}
        return {
            "property": f"{self.name}={self.value}",
            "counts": counts,
            "judged": counts["entries"] - counts["within_life"],
            "listed": [
                {
                    **{name: row[name] for name in (*MESSAGE, "accepted_at", "tags")},
                    "deliveries": [
                        {
                            "subscription": of.subscription or f"#{of.ordinal}",
                            "state": "pending" if of.end is None else ENDS[of.end - 1],
                            "attempts": of.attempts,
                            "ended_at": of.ended_at,
                        }
                        for of in row.deliveries or ()
                    ],
                }
                for row in listed.collect()
            ],
        }
