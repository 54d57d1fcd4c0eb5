"""What a process logs, as Lambda reads it where it is told to write JSON (``SystemLogLevel`` WARN)."""

import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from io import StringIO

import pytest
from aws_lambda_powertools import Logger
from tagcast_aws.runtime import telemetry

Lines = Callable[[str], list[dict[str, str]]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    """Return what says which lines a process writes at a level, where Lambda's own is the template's."""

    def written(level: str) -> list[dict[str, str]]:
        monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", f"log-at-{level}")
        monkeypatch.setenv("AWS_LAMBDA_LOG_LEVEL", "DEBUG" if level == "DEBUG" else "INFO")
        monkeypatch.setenv("LOG_LEVEL", level)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            logger: Logger = telemetry.logger.__wrapped__()
        logger.registered_handler.setStream(text := StringIO())  # type: ignore[attr-defined]
        logger.info("at INFO")
        logger.warning("at WARNING")
        return [json.loads(line) for line in text.getvalue().splitlines()]

    return written


def test_the_level_of_the_template_is_obeyed_where_lambda_lets_more_through(lines: Lines) -> None:
    assert [line["message"] for line in lines("INFO")] == ["at INFO", "at WARNING"]
    assert [line["message"] for line in lines("WARNING")] == ["at WARNING"]


def test_a_line_says_its_level_and_an_instant_that_lambda_reads(lines: Lines) -> None:
    line = lines("ERROR") + lines("WARNING")
    assert [each["level"] for each in line] == ["WARNING"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", line[0]["timestamp"])


@pytest.fixture
def root_at_debug() -> Iterator[None]:
    """Start as Lambda's runtime does where ``ApplicationLogLevel`` is DEBUG: the root logger lets all through."""
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.DEBUG)
    yield
    root.setLevel(before)


@pytest.mark.usefixtures("root_at_debug")
def test_at_debug_no_library_logs_what_it_sends_and_gets(lines: Lines) -> None:
    """At DEBUG, botocore logs requests and answers whole, with bodies of messages and decrypted secrets."""
    assert logging.getLogger("botocore.parsers").isEnabledFor(logging.DEBUG)
    assert [line["message"] for line in lines("DEBUG")] == ["at INFO", "at WARNING"]
    for library in ("botocore.parsers", "urllib3.connectionpool", "asyncio"):
        assert not logging.getLogger(library).isEnabledFor(logging.DEBUG)
        assert logging.getLogger(library).isEnabledFor(logging.WARNING)
