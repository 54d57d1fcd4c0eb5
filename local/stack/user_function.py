"""The handler of a function of `--functions FILE`: it runs in a process of its own, without any of our credentials."""

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
    """Answer what the function of the file that has this function's name says to *event*."""
    return _names(os.environ[FILE_VARIABLE])[os.environ["AWS_LAMBDA_FUNCTION_NAME"]](event)
