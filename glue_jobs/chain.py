"""Runs several jobs in one Spark session: ``chain compact --archive A --then audit --archive A``.

Starting Spark takes longer than a job on a small archive. The first job with an exit code other than 0 ends the chain.
If a job refuses its arguments, no job runs.
With ``--serve``, the program reads chains from standard input, one JSON list per line. It prints ``{"ended": CODE}``
after each chain.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence

from pyspark.sql import SparkSession

from glue_jobs import audit, backtest, compact, delivery_report, erase, replay, retain

SERVE, THEN = "--serve", "--then"
JOBS: dict[str, Callable[[Sequence[str]], int]] = {
    "audit": audit.main,
    "backtest": backtest.main,
    "compact": compact.main,
    "delivery_report": delivery_report.main,
    "erase": erase.main,
    "replay": replay.main,
    "retain": retain.main,
}


READERS = {
    "audit": audit.read_arguments,
    "backtest": backtest.read_arguments,
    "delivery_report": delivery_report.read_arguments,
    "erase": erase.read_arguments,
    "replay": replay.read_arguments,
    "retain": retain.read_arguments,
}
"""The checks of arguments, which all run before the first job. ``compact`` checks its own when it runs."""


def links(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the arguments of each job.

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
    """Run the jobs in *argv*; return the exit code of the last job that ran."""
    code, words = 0, sys.argv[1:] if argv is None else argv
    if words == [SERVE]:
        return serve()
    for job, *arguments in links(words):
        if (read := READERS.get(job)) is not None:
            read(arguments)
    for job, *arguments in links(words):
        code = JOBS[job](arguments)
        if code:
            break
    return code


def serve() -> int:
    """Run one chain after another in one session until the input ends. An exception in a job ends the program, too."""
    for line in sys.stdin:
        code = main(json.loads(line))
        if (session := SparkSession.getActiveSession()) is not None:
            session.catalog.clearCache()
        print(json.dumps({"ended": code}), flush=True)
    return 0


if __name__ == "__main__" and (code := main()):
    sys.exit(code)
