"""Tables used more than once: computed once, and kept in the cheapest form.

A cached plan is planned again with every use. If the driver can hold the rows, they are cheaper: Spark then evaluates
them while it plans, and skips work on empty tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IN_DRIVER = "spark.tagcast.rowsInDriver"
"""The session setting that selects this; :func:`glue_jobs.io.session.suit` sets it."""


def materialise(table: DataFrame) -> DataFrame:
    """Return *table* for repeated use: its rows in the driver for a very small archive, else cached."""
    session: Any = table.sparkSession
    if session.conf.get(IN_DRIVER, "false") != "true":
        return table.persist(StorageLevel.MEMORY_AND_DISK)
    plan: Any = table._jdf
    rows = session._jsparkSession.createDataFrame(plan.collectAsList(), plan.schema())
    made: DataFrame = type(table)(rows, session)
    return made
