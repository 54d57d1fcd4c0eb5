"""The lines of the log, as Powertools writes them, in two thirds of the time."""

from __future__ import annotations

import os
from logging import LogRecord
from typing import Any

from aws_lambda_powertools.logging.formatter import RESERVED_LOG_ATTRS, LambdaPowertoolsFormatter
from aws_lambda_powertools.shared.constants import XRAY_TRACE_ID_ENV

_OF_RECORDS = frozenset(RESERVED_LOG_ATTRS)


class LogLines(LambdaPowertoolsFormatter):
    """Powertools' formatter, but for its search of every message for JSON, and of every key in a list.

    At DEBUG there is a line for every push. What has arguments or an exception is left to Powertools.
    """

    def format(self, record: LogRecord) -> str:
        """Return the line of *record*."""
        if record.exc_info or record.args or os.environ.get(XRAY_TRACE_ID_ENV) or self.thread_safe_get_current_keys():
            return super().format(record)
        of_record = {
            "level": record.levelname,
            "location": f"{record.funcName}:{record.lineno}",
            "message": record.msg,
            "timestamp": self.formatTime(record),
        }
        line: dict[str, Any] = {**self.log_format, **of_record}
        line.update(each for each in record.__dict__.items() if each[0] not in _OF_RECORDS)
        return self.serialize({name: value for name, value in line.items() if value is not None})
