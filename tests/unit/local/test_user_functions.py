import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from local.functions.lambda_host import LambdaHost
from local.stack.user_functions import FunctionsFileError, names_in, specs_of

SOURCE = """
import os
LIMIT = 100
def cheap(event): return {"verdicts": [int(m["properties"]["price"]) < LIMIT for m in event["messages"]]}
def keys(event): return sorted(name for name in os.environ if "SECRET" in name or "ENDPOINT" in name)
def _private(event): return None
async def not_this(event): return None
class NorThis: pass
"""


async def run(file: Path, function: str, event: Mapping[str, Any]) -> Any:
    host = LambdaHost(lambda function, line: None)
    for spec in specs_of(file):
        host.deploy(spec, {"HOME": os.environ.get("HOME", "")}, 1)
    try:
        invocation = await host.invoke(function, json.dumps(event).encode())
    finally:
        await asyncio.wait_for(host.stop(), 5)
    assert not invocation.failed, invocation.payload
    return json.loads(invocation.payload)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


async def test_the_functions_at_the_top_level_are_served(file: Path) -> None:
    assert names_in(file) == ("cheap", "keys")
    event = {"messages": [{"properties": {"price": "50"}}, {"properties": {"price": "150"}}]}
    assert await run(file, "cheap", event) == {"verdicts": [True, False]}


async def test_user_code_gets_no_credentials_of_the_service(file: Path) -> None:
    assert await run(file, "keys", {}) == []


@pytest.mark.parametrize("source", ["def broken(:", "x = 1", "\0"])
def test_a_file_without_functions_is_refused(tmp_path: Path, source: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(source)
    with pytest.raises(FunctionsFileError, match=r"mine\.py"):
        names_in(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FunctionsFileError, match="cannot read"):
        names_in(tmp_path / "none.py")
