"""Writes the generated files of the client, at every build, or when you run this file.

`openapi_source` writes settings, models and operations from the API's document. The synchronous half, `_sync`, comes
from the asynchronous half, `_async`.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import unasync
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent
sys.path.append(str(HERE))  # A build loads this file by its path.

import openapi_source  # noqa: E402

WORDS = {
    "_async": "_sync",
    "aclose": "close",
    "asyncio": "time",
    "asyncio_tasks": "threads",
    "async_verdict": "verdict",
}
"""Replacements of names that do not begin with ``Async``. unasync itself replaces keywords such as ``await``."""
WRITTEN = ("settings.py", "models.py", "_async/operations.py", "_sync/*.py")


def write_all(package: Path) -> None:
    """Write all generated files into *package*, the folder of the client's package."""
    places = (HERE / "openapi.json", HERE.parents[1] / "docs/openapi.json")  # In a source distribution, in a checkout.
    document = next(place for place in places if place.exists())
    openapi_source.write(json.loads(document.read_text("utf-8")), package)
    write_sync(package)


def write_sync(package: Path) -> None:
    """Write the folder `_sync` of *package* from its folder `_async`. Names lose their prefix ``Async``."""
    sources = sorted((package / "_async").glob("*.py"))
    names = {name for source in sources for name in re.findall(r"\bAsync\w+", source.read_text("utf-8"))}
    words = WORDS | {name: name.removeprefix("Async") for name in names}
    shutil.rmtree(package / "_sync", ignore_errors=True)
    unasync.unasync_files([str(source) for source in sources], [unasync.Rule("/_async/", "/_sync/", words)])


class BuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Makes hatch write the generated files before it builds a wheel. An editable wheel has them, too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the generated files before a build of any *version* (kind), and add their names to *build_data*.

        Git ignores these files, and hatch leaves ignored files out unless *build_data* names them.
        """
        write_all(Path(self.root) / "tagcast_client")
        build_data["artifacts"] += [f"tagcast_client/{name}" for name in WRITTEN]


if __name__ == "__main__":
    write_all(HERE / "tagcast_client")
