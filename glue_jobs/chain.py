"""Runs several jobs in one Spark session: ``chain compact --archive A --then audit --archive A``.

Starting Spark takes longer than a job on a small archive. The first job with an exit code other than 0 ends the chain.
If a job refuses its arguments, no job runs.
With ``--serve``, the program reads chains from standard input, one JSON list per line. It prints ``{"ended": CODE}``
after each chain.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Protocol

from pyspark.sql import SparkSession

from glue_jobs import audit, backtest, compact, delivery_report, erase, replay, retain

SERVE, THEN = "--serve", "--then"


class Job(Protocol):
    """The functions that the module of each job has."""

    def read_arguments(self, argv: Sequence[str] | None = None) -> Namespace:
        """Parse *argv*, by default the process's arguments. Raises SystemExit (2) if an argument is bad."""

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the job with *argv*, by default the process's arguments. Return the exit code."""


JOBS: dict[str, Job] = {
    "audit": audit,
    "backtest": backtest,
    "compact": compact,
    "delivery_report": delivery_report,
    "erase": erase,
    "replay": replay,
    "retain": retain,
}


def links(words: Sequence[str]) -> Iterator[list[str]]:
    """Split the arguments of a chain at ``--then``, and yield the arguments of each job.

    >>> list(links(["compact", "--date", "D", "--then", "audit"]))
    [['compact', '--date', 'D'], ['audit']]
    """
    link: list[str] = []
    for word in words:
        if word == THEN:
            yield link
            link = []
        else:
            link.append(word)
    yield link


def main(argv: Sequence[str] | None = None) -> int:
    """Run the jobs in *argv*, by default the process's arguments. Return the exit code of the last job that ran."""
    code, words = 0, sys.argv[1:] if argv is None else argv
    if words == [SERVE]:
        return serve()
    for job, *arguments in links(words):
        JOBS[job].read_arguments(arguments)
    for job, *arguments in links(words):
        code = JOBS[job].main(arguments)
        if code:
            break
    return code


def serve() -> int:
    """Read chains from standard input, and run them in the same session. An exception in a job ends the program."""
    for line in sys.stdin:
        code = main(json.loads(line))
        if (session := SparkSession.getActiveSession()) is not None:
            session.catalog.clearCache()
        print(json.dumps({"ended": code}), flush=True)
    return 0


if __name__ == "__main__" and (code := main()):
    sys.exit(code)
