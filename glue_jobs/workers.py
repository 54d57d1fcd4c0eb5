"""Starts Spark's Python workers on this machine: each worker is a fork of a process that has imported all jobs.

Spark's own process imports no jobs, so each worker would import them all. Spark also puts its core jar into Python's
search path, and each task would read the names of the 5,000 files in the jar again.
"""

from __future__ import annotations

import gc
import sys

if __name__ == "__main__":
    # An installed pyspark is compiled already; that of Spark's zip is not.
    sys.path[:] = sorted((place for place in sys.path if not place.endswith(".jar")), key=lambda each: ".zip" in each)
    sys.path_importer_cache.clear()

    from pyspark import daemon

    from glue_jobs import chain  # noqa: F401  # Its import reads the modules of all jobs.

    sys.path_importer_cache.clear()
    gc.freeze()  # Each worker looks for garbage after each task, and the modules stay.
    daemon.manager()  # type: ignore[no-untyped-call]  # pyspark.daemon has no types.
