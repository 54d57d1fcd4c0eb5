"""Which files a day of curated records is made of: a manifest for each kind and day, swapped in one conditional write.

Files are written beside those that are read, under a name of their own; then the manifest is replaced, if it still is
what the writer began with. A reader sees the former files or the new ones. Nobody sees the files of a run that stopped.

A manifest is text, the URI of one file on each line, as Hive's ``SymlinkTextInputFormat`` reads it: so Athena reads
the curated tables through their manifests, too.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from tagcast.archive.record import RecordKind

from glue_jobs.io.objects import Objects, Stored, json_of

AT_ONCE = 16
MADE = "_made.json"
"""Stands beside the files of a generation; Spark and Athena pass over names that begin so."""


EVER = 9_999_999_999_999
"""The last instant of 13 digits: every generation was begun before."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a generation holds: how many records, and their bytes; and *without* which parts all its messages are.

    Retention says so. A generation of a later compaction may have a late record with all its parts.
    """

    records: int
    bytes: int
    without: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of one day, by key, and what the manifest held when it was read (None: there is none)."""

    kind: RecordKind
    day: str
    files: tuple[str, ...]
    seen: Stored | None

    @property
    def generation(self) -> str | None:
        """Return the name of the generation that the files belong to, or None where there are none."""
        return self.files[0].split("/")[3] if self.files else None


def data_prefix(kind: RecordKind, generation: str = "") -> str:
    """Return where the files of a kind are, or those of one generation: below it each day has a folder.

    >>> data_prefix(RecordKind.LANES, "7-a")
    'curated/lanes/data/7-a/'
    """
    return f"curated/{kind}/data/{generation}{'/' if generation else ''}"


def manifest_key(kind: RecordKind, day: str) -> str:
    """Return the key of a manifest.

    >>> manifest_key(RecordKind.LANES, "2026-11-20")
    'curated/lanes/manifest/dt=2026-11-20/files'
    """
    return f"curated/{kind}/manifest/dt={day}/files"


def read(objects: Objects, kind: RecordKind, days: Iterable[str]) -> list[Manifest]:
    """Return the manifests of *days*; of a day that has none, one without files."""

    def one(day: str) -> Manifest:
        seen = objects.read(manifest_key(kind, day))
        lines = [] if seen is None else seen.content.decode().splitlines()
        # A copy of the archive is read where it is: only what follows the root counts.
        return Manifest(kind, day, tuple(f"curated/{line.rpartition('/curated/')[2]}" for line in lines if line), seen)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, days))


def made_of(objects: Objects, manifest: Manifest) -> Made | None:
    """Return what the manifest's generation holds, or None of a day without files."""
    found = json_of(objects.read(f"{manifest.files[0].rpartition('/')[0]}/{MADE}") if manifest.files else None)
    return Made(**found) if found else None


def swap(objects: Objects, root: str, before: Manifest, files: Sequence[str], made: Made) -> None:
    """Point the manifest to *files* of one generation, unless somebody swapped it since. Raises RacedError."""
    if files:
        objects.replace(f"{files[0].rpartition('/')[0]}/{MADE}", json.dumps(asdict(made)).encode())
    content = "".join(f"{root}/{key}\n" for key in sorted(files))
    objects.write(manifest_key(before.kind, before.day), content.encode(), before.seen)


def generation_at(now_ms: int) -> str:
    """Return the name of a new generation: when it was begun, and what tells two writers apart.

    >>> generation_at(1_795_132_800_000)[:14]
    '1795132800000-'
    """
    return f"{now_ms:013d}-{secrets.token_hex(4)}"


def by_day(keys: Iterable[str]) -> dict[str, list[str]]:
    """Return keys of files by the day that their folder is named for.

    >>> by_day(["curated/lanes/data/7-a/dt=2026-11-20/f", "curated/lanes/data/7-a/_SUCCESS"])
    {'2026-11-20': ['curated/lanes/data/7-a/dt=2026-11-20/f']}
    """
    found: dict[str, list[str]] = {}
    for key in keys:
        folder = key.split("/")[-2]
        if folder.startswith("dt="):
            found.setdefault(folder.removeprefix("dt="), []).append(key)
    return found


def former(objects: Objects, current: Sequence[Manifest], begun_before: int) -> list[str]:
    """Return the files of days that their manifests do not name: of interrupted runs, and of generations replaced.

    Only of generations begun before that instant: a reader may have the others open, or a writer be at work on them.
    """
    found = []
    if current:
        keys = by_day(objects.sizes(data_prefix(current[0].kind)))
        for each in current:
            for key in keys.get(each.day, ()):
                generation = key.split("/")[3]
                if generation != each.generation and generation < f"{begun_before:013d}":
                    found.append(key)
    return found
