"""Packages the jobs for Glue: ``python -m glue_jobs.package dist/jobs``."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import tagcast
import tagcast_client

JOBS = ("compact", "delivery_report", "audit", "backtest", "replay", "erase", "retain")
ARCHIVE = "tagcast-jobs.zip"
REPLAY = Path(__file__).parents[1] / "requirements-replay.lock"
"""The client's requirements, which Glue installs for the replay job."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_zip(target: Path) -> Path:
    """Write a zip of the core, the client and the jobs, for ``--extra-py-files``. Equal sources give equal bytes."""
    folders = (Path(tagcast.__path__[0]), Path(tagcast_client.__path__[0]), Path(__file__).parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for folder in folders:
            for source in sorted(folder.rglob("*.py")):
                name = (Path(folder.name) / source.relative_to(folder)).as_posix()
                out.writestr(zipfile.ZipInfo(name, _EPOCH), source.read_bytes(), zipfile.ZIP_DEFLATED)
    return target


def main(argv: Sequence[str] | None = None) -> int:
    """Write the zip, the script of each job, and the replay job's requirements."""
    given = sys.argv[1:] if argv is None else argv
    if len(given) != 1:
        print("usage: python -m glue_jobs.package FOLDER", file=sys.stderr)
        return 2
    folder = Path(given[0])
    written = [write_zip(folder / ARCHIVE)]
    for job in JOBS:
        script = folder / f"{job}.py"
        script.write_text((Path(__file__).parent / f"{job}.py").read_text())
        written.append(script)
    requirements = folder / "replay-requirements.txt"
    requirements.write_text(REPLAY.read_text())
    written.append(requirements)
    for path in written:
        print(f"{path.stat().st_size:>9,}  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
