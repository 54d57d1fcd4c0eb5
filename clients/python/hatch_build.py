"""Writes the synchronous half of the client, `_sync`, from the asynchronous one: each build does, and this file run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import unasync
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent / "tagcast_client"
WORDS = {"_async": "_sync", "aclose": "close", "asyncio": "time", "asyncio_tasks": "threads"}
"""Each name that begins with ``Async`` loses this beginning; unasync knows the language's own words."""


def write_sync(package: Path) -> None:
    """Write the folder `_sync` of *package* anew from its folder `_async`."""
    sources = sorted((package / "_async").glob("*.py"))
    names = {name for source in sources for name in re.findall(r"\bAsync\w+", source.read_text())}
    words = WORDS | {name: name.removeprefix("Async") for name in names}
    shutil.rmtree(package / "_sync", ignore_errors=True)
    unasync.unasync_files([str(source) for source in sources], [unasync.Rule("/_async/", "/_sync/", words)])


class SyncHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the synchronous half before a wheel, or an editable one, takes the files of the package."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files, which git ignores, and name them to hatchling."""
        write_sync(Path(self.root) / "tagcast_client")
        build_data["artifacts"].append("tagcast_client/_sync/*.py")


if __name__ == "__main__":
    write_sync(HERE)
