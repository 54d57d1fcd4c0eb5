"""Prepares tables for repeated use: each table is computed once, and stored in the cheapest form.

Spark plans a query on a cached table with the whole plan of this table, at every use. Rows in the memory of the driver
are cheaper, if they fit. Spark evaluates such rows while it plans a query, and skips work on empty tables.
"""

from __future__ import annotations

from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame

IN_DRIVER = "spark.tagcast.rowsInDriver"
"""The session setting that stores rows in the driver; :func:`glue_jobs.io.session.suit` sets it."""


def materialise(table: DataFrame) -> DataFrame:
    """Return *table* in a form for repeated use: as rows in the driver for a very small archive, otherwise cached."""
    session: Any = table.sparkSession
    plan: Any = table._jdf
    if session.conf.get(IN_DRIVER, "false") == "true":
        rows = session._jsparkSession.createDataFrame(plan.collectAsList(), plan.schema())
    else:
        table.persist(StorageLevel.MEMORY_AND_DISK)
        rows = _read_cached(session, plan.queryExecution().analyzed())
    made: DataFrame = type(table)(rows, session)
    return made


def _read_cached(session: Any, plan: Any) -> Any:
    """Return the rows of a cached *plan* as a leaf, so that Spark does not analyze *plan* again in each later plan."""
    of_plan = session._jvm.org.apache.spark.sql.Dataset.ofRows
    return of_plan(session._jsparkSession, of_plan(session._jsparkSession, plan).queryExecution().withCachedData())
