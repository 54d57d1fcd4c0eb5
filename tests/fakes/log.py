"""The real logger of powertools, writing to where a test can read it."""

import json
from io import StringIO
from itertools import count
from typing import Any

from aws_lambda_powertools import Logger

_numbers = count()


class Log:
    """A logger of its own (powertools keeps one set of handlers per name), and what it wrote."""

    def __init__(self) -> None:
        self._written = StringIO()
        self.logger = Logger(service=f"test-{next(_numbers)}", stream=self._written)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._written.getvalue().splitlines()]
