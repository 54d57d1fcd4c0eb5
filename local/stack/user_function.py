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
    """Call the function of the user's file that has the name of this Lambda function; return its result."""
    return _names(os.environ[FILE_VARIABLE])[os.environ["AWS_LAMBDA_FUNCTION_NAME"]](event)
