"""The handler of a function in `--functions FILE`, run in its own process without credentials."""

import functools
import os
import runpy
from collections.abc import Mapping
from typing import Any

FILE_VARIABLE = "TAGCAST_FUNCTIONS"


@functools.cache
def _names(file: str) -> Mapping[str, Any]:
    return runpy.run_path(file)


def handle(event: object, context: object) -> object:
    """Return the result of the user's function with this function's name."""
    return _names(os.environ[FILE_VARIABLE])[os.environ["AWS_LAMBDA_FUNCTION_NAME"]](event)
