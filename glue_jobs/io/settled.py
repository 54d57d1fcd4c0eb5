"""Tables that are used more than once: computed once, and kept where using them again costs least.

A kept plan is planned again with every use. Of an archive that a driver can hold, the rows themselves are cheaper:
Spark computes what it can of them while it plans, and leaves out what stands on a table without rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IN_DRIVER = "spark.tagcast.rowsInDriver"
"""The session's setting that says so; :func:`glue_jobs.io.session.suit` sets it."""


def settled(table: DataFrame) -> DataFrame:
    """Return *table* for repeated use: its rows in the driver if the session suits a very small archive, else kept."""
    session: Any = table.sparkSession
    if session.conf.get(IN_DRIVER, "false") != "true":
        return table.persist(StorageLevel.MEMORY_AND_DISK)
    plan: Any = table._jdf
    rows = session._jsparkSession.createDataFrame(plan.collectAsList(), plan.schema())
    made: DataFrame = type(table)(rows, session)
    return made
