"""Make pairs, or compare what another engine said of them with what we say.

`make COUNT [SEED]`, or `compare PAIRS VERDICTS`: see the package.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from tests.event_patterns.pairs import pairs
from tests.event_patterns.verdicts import our_verdict


def main(arguments: list[str]) -> int:
    """Do the one or the other; return how many pairs differ, at most 100."""
    match arguments:
        case ["make", count, *seed]:
            for pair in pairs(int(count), int(seed[0]) if seed else 1):
                print(json.dumps(pair))
            return 0
        case ["compare", made, said]:
            return compare(made, said)
    print(__doc__)
    return 2


def compare(made: str, said: str) -> int:
    """Tell each pair of which something else was said."""
    counts: Counter[tuple[str, str]] = Counter()
    with Path(made).open(encoding="utf-8") as lines, Path(said).open(encoding="utf-8") as verdicts:
        for line, verdict in zip(lines, verdicts, strict=True):
            pair, theirs = json.loads(line), verdict.strip()
            ours = our_verdict(pair["pattern"], pair["event"])
            counts[ours, theirs] += 1
            if ours != theirs.removesuffix("*"):
                print(f"ours {ours}, theirs {theirs}: {pair['pattern']}  {pair['event']}")
    for (ours, theirs), count in sorted(counts.items()):
        print(f"{count:8} ours {ours}, theirs {theirs}", file=sys.stderr)
    return min(100, sum(count for (ours, theirs), count in counts.items() if ours != theirs.removesuffix("*")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
