"""Several jobs one after the other in one Spark session: ``chain compact --archive A --then audit --archive A``.

Starting Spark takes longer than a small archive. The first job that does not end with 0 ends the chain.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

from glue_jobs import audit, backtest, compact, delivery_report, replay

THEN = "--then"
JOBS: dict[str, Callable[[Sequence[str]], int]] = {
    "audit": audit.main,
    "backtest": backtest.main,
    "compact": compact.main,
    "delivery_report": delivery_report.main,
    "replay": replay.main,
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
    code = 0
    for job, *arguments in links(sys.argv[1:] if argv is None else argv):
        code = JOBS[job](arguments)
        if code:
            break
    return code


if __name__ == "__main__" and (code := main()):
    sys.exit(code)
