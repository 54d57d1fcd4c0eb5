"""The filter index beside peers, on the same messages with equal results. Run: ``python -m tests.benchmarks.filters``.

Only ratios of one run mean something, and the JVM's times are of another machine (docs/filters.md); nothing here
fails because a machine is slow. Names of parts choose them: ``python -m tests.benchmarks.filters routing single``.
"""

import gc
import sys

from tests.benchmarks.filtering.event_patterns import patterns
from tests.benchmarks.filtering.expressions import beside_rule_engine, expressions, single, tags
from tests.benchmarks.filtering.routing import routing

PARTS = {part.__name__: part for part in (routing, expressions, beside_rule_engine, tags, single, patterns)}


def main() -> None:
    gc.disable()
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
