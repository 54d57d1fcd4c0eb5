"""Several jobs one after the other in one Spark session: ``chain compact --archive A --then audit --archive A``.

Starting Spark takes longer than a small archive. The first job that does not end with 0 ends the chain. ``--serve``
takes chains from standard input, each a JSON list in a line, and writes ``{"ended": CODE}`` behind what each printed.
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


def links(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the words of each job.

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
    """Run the jobs that *argv* names; return the exit code of the last one that ran."""
    code, words = 0, sys.argv[1:] if argv is None else argv
    if words == [SERVE]:
        return serve()
    for job, *arguments in links(words):
        code = JOBS[job](arguments)
        if code:
            break
    return code


def serve() -> int:
    """Run one chain after another in one session until nothing more is asked; what breaks a job ends this, too."""
    for line in sys.stdin:
        code = main(json.loads(line))
        if (session := SparkSession.getActiveSession()) is not None:
            session.catalog.clearCache()
        print(json.dumps({"ended": code}), flush=True)
    return 0


if __name__ == "__main__" and (code := main()):
    sys.exit(code)
