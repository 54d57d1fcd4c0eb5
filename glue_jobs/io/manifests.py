"""The files of a day of curated records: a manifest for each kind and day, replaced by one conditional write.

A *generation* of files (unlike that of a lane) is the files that one run wrote for a day. A run writes them next to the
current ones, and then replaces the manifest if it is unchanged since it was read. So a reader sees the old or the new
files, and never those of an interrupted run.

A manifest has one file URI per line, the format of Hive's ``SymlinkTextInputFormat``. So Athena reads the curated
tables through their manifests, too.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from tagcast.archive.record import RecordKind

from glue_jobs.io.objects import LostRaceError, Objects, Stored, json_of

AT_ONCE = 16
MADE = "_made.json"
"""The description beside the files of a generation; Spark and Athena ignore names that begin with an underscore."""


@dataclass(frozen=True, slots=True)
class GenerationSummary:
    """The content of a generation: number of records, bytes, and the parts that all its messages lack (*without*).

    The job `retain` sets *without*. A compaction does not keep *without*, because a late record may have all parts.
    *conflicts* counts the records that compactions of this day dropped, because the kept record of the same id differs.
    """

    records: int
    bytes: int
    without: Sequence[str] = ()
    conflicts: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """The curated files of one kind and day, as their stored manifest lists them. *files* are the files' keys.

    *seen* is the stored manifest, for a conditional write. It is None if the day has no stored manifest.
    """

    kind: RecordKind
    day: str
    files: tuple[str, ...]
    seen: Stored | None

    @property
    def generation(self) -> str | None:
        """The name of the generation of the files, or None if there are no files."""
        return generation_of(self.files[0]) if self.files else None


def data_prefix(kind: RecordKind, generation: str = "") -> str:
    """Return the prefix of a kind's files, or of one generation. Below the prefix, each day has a folder.

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
    """Return the manifests of *days*. A day without a stored manifest gets a manifest without files."""

    def one(day: str) -> Manifest:
        seen = objects.read(manifest_key(kind, day))
        lines = [] if seen is None else seen.content.decode().splitlines()
        # A copied archive is read in place: only the path below the root counts.
        return Manifest(kind, day, tuple(f"curated/{line.rpartition('/curated/')[2]}" for line in lines if line), seen)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, days))


def read_summary(objects: Objects, manifest: Manifest) -> GenerationSummary | None:
    """Return the summary of the manifest's generation; None if the day has no files, or its summary is missing."""
    found = json_of(objects.read(f"{manifest.files[0].rpartition('/')[0]}/{MADE}") if manifest.files else None)
    return GenerationSummary(**found) if found else None


def swap(objects: Objects, root: str, before: Manifest, files: Sequence[str], made: GenerationSummary) -> None:
    """Replace the manifest *before* by one that names *files*. *made* is the summary of the new generation.

    Raises LostRaceError if the manifest changed since it was read. The URIs in the new manifest begin with ``s3://``,
    because Athena reads no others, even if *root* begins with ``s3a://`` for Hadoop.
    """
    if files:
        objects.replace(f"{files[0].rpartition('/')[0]}/{MADE}", json.dumps(asdict(made)).encode())
    place = root.replace("s3a://", "s3://")
    key = manifest_key(before.kind, before.day)
    content = "".join(f"{place}/{each}\n" for each in sorted(files)).encode()
    try:
        objects.write(key, content, before.seen)
    except LostRaceError:
        # If S3's answer is lost, the SDK repeats the write, and S3 refuses it. No other run names these files.
        now = objects.read(key)
        if not files or now is None or now.content != content:
            raise


@contextmanager
def watch(objects: Objects, before: Sequence[Manifest]) -> Iterator[None]:
    """Run a block. Replace its error by LostRaceError if a manifest in *before* changed meanwhile.

    The writer of the changed manifest may have deleted files that the block read or wrote, and so have caused the
    error.
    """
    try:
        yield
    except LostRaceError:
        raise
    except Exception as fault:
        for each in before:
            key = manifest_key(each.kind, each.day)
            now = objects.read(key)
            if (now and now.tag) != (each.seen and each.seen.tag):
                raise LostRaceError(key) from fault
        raise


def generation_at(now_ms: int) -> str:
    """Return the name of a generation that begins at *now_ms*: the instant, and a random part.

    >>> generation_at(1_795_132_800_000)[:14]
    '1795132800000-'
    """
    return f"{now_ms:013d}-{secrets.token_hex(4)}"


def generation_of(key: str) -> str:
    """Return the name of the generation of a file.

    >>> generation_of("curated/lanes/data/7-a/dt=2026-11-20/f")
    '7-a'
    """
    return key.split("/")[3]


def began_before(generation: str, at_ms: int) -> bool:
    """Return whether the generation of this name began before *at_ms*.

    >>> began_before("1795132800000-4f", 1_795_132_800_000), began_before("1795132800000-4f", 1_795_132_800_001)
    (False, True)
    """
    return generation < f"{at_ms:013d}"


def by_day(keys: Iterable[str]) -> dict[str, list[str]]:
    """Group the keys of files by the day of their folder. Keys in other folders are left out.

    >>> by_day(["curated/lanes/data/7-a/dt=2026-11-20/f", "curated/lanes/data/7-a/_SUCCESS"])
    {'2026-11-20': ['curated/lanes/data/7-a/dt=2026-11-20/f']}
    """
    found: dict[str, list[str]] = {}
    for key in keys:
        folder = key.split("/")[-2]
        if folder.startswith("dt="):
            found.setdefault(folder.removeprefix("dt="), []).append(key)
    return found


def former(objects: Objects, kind: RecordKind, days: Collection[str], begun_before: int) -> list[str]:
    """Return the files that no manifest names, because their run was interrupted or a newer compaction replaced them.

    The result covers *days*, and all days with several generations. It leaves out generations that began at
    *begun_before* (ms) or later, because a run may still write them. It also leaves out a day whose current generation
    began at that time or later, because readers may still read the day's former generations.
    """
    generations: dict[str, dict[str, list[str]]] = {}
    for day, keys in by_day(objects.sizes(data_prefix(kind))).items():
        for key in keys:
            generations.setdefault(day, {}).setdefault(generation_of(key), []).append(key)
    found = list[str]()
    for each in read(objects, kind, [day for day in generations if day in days or len(generations[day]) > 1]):
        if began_before(each.generation or "", begun_before):
            for name, keys in generations[each.day].items():
                found += keys if name != each.generation and began_before(name, begun_before) else ()
    return found
