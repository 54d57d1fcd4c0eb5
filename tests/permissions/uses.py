"""What roles did while tests ran: every stack of a session writes into one file, and here it is read."""

import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

_FOLDER = tempfile.TemporaryDirectory(prefix="tagcast-uses-")
USES = Path(os.environ.get("TAGCAST_USES") or Path(_FOLDER.name) / "uses.jsonl")
"""The file of this session; the environment may name one that is to be kept."""
_MADE_UP = re.compile(r"tagcast-([A-Za-z]+)-[0-9A-Fa-f]{10,}")


@dataclass(frozen=True)
class Use:
    """One action of a role, the first resource that it was for, and the pattern that allows it (None: refused)."""

    role: str
    action: str
    resource: str
    grant: str | None


def declared(name: str) -> str:
    """An ARN with the names that the engine made up as the template's resolver makes them up.

    >>> declared("arn:aws:s3:::tagcast-indexbucket-99776b5b82f3f/indexes/*")
    'arn:aws:s3:::tagcast-indexbucket/indexes/*'
    """
    return _MADE_UP.sub(r"tagcast-\1", name).lower()


def recorded(file: Path) -> list[Use]:
    """The uses of a file, the resources named as declared."""
    if not file.exists():
        return []
    found = [json.loads(line) for line in file.read_text().splitlines()]
    return [
        Use(each["role"], each["action"], declared(each["resource"]), each["grant"] and declared(each["grant"]))
        for each in found
    ]
