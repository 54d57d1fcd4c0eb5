"""The handler that Lambda workers run for the user's functions from `--functions FILE`. It has no credentials."""

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
    """Call the user's function that has the same name as this Lambda function. Return its result."""
    return _names(os.environ[FILE_VARIABLE])[os.environ["AWS_LAMBDA_FUNCTION_NAME"]](event)
