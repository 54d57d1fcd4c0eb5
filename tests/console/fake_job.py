"""Says and leaves what a Spark job would: `fake_job.py REPORTS compact … --then JOB --archive URI …`.

A job of the topic *broken* breaks, and one of the topic *slow* ends when it is told to. Before one of the topic
*damaged* the compaction fails.
"""

import json
import sys
import time
from pathlib import Path


def main(reports: Path, words: list[str]) -> int:
    asked = words[words.index("--then") + 1 :]
    topic = asked[asked.index("--topic") + 1] if "--topic" in asked else ""
    print("progress: reading what was archived", file=sys.stderr, flush=True)
    if topic == "broken":
        print("the archive has <no> such day", file=sys.stderr)
        return 2
    if topic == "damaged":
        print(json.dumps({"job": words[0], "ok": False, "kinds": {}, "failed": "messages", "file": "raw/1.gz"}))
        return 1
    while topic == "slow":
        time.sleep(0.05)
    page = reports / asked[0] / "day" / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(f"<!doctype html><title>{asked[0]}</title>{' '.join(asked[1:])}")
    found = {"judged": 12, "violations": 2 if topic == "violated" else 0}
    print(json.dumps({"job": asked[0], **found, "html": str(page)}))
    return int(topic == "violated")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
