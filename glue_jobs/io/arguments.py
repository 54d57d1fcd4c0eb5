"""Arguments of the jobs: ``--key value`` pairs as Glue passes them, and windows of days."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from typing import NoReturn
from urllib.parse import urlsplit

from tagcast import instant

GLUES_OWN = "--JOB_NAME"
"""Glue adds its own arguments to those of the job, always including this one."""
MISTYPED = 0.75
"""How similar an unknown argument must be to a known one to be refused on Glue (1 is equal).

Glue passes arguments of its own (glue/latest/dg/aws-glue-programming-etl-glue-arguments.html), and may add others. The
most similar one to an argument of a job is ``--scriptLocation``, with 0.69.
"""
DAYS_MAX, YEAR_MIN, YEAR_MAX = 36_500, 1970, 2999


@dataclass(frozen=True, slots=True)
class Window:
    """Whole days in UTC, from *first* to before *end*."""

    first: date
    end: date

    def days(self) -> list[str]:
        """Return the days as they appear in paths.

        >>> Window(date(2026, 11, 20), date(2026, 11, 22)).days()
        ['2026-11-20', '2026-11-21']
        """
        return [(self.first + timedelta(n)).isoformat() for n in range((self.end - self.first).days)]

    @property
    def label(self) -> str:
        """The first and the last day, for paths.

        >>> Window(date(2026, 11, 20), date(2026, 11, 21)).label
        '2026-11-20'
        >>> Window(date(2026, 11, 20), date(2026, 11, 23)).label
        '2026-11-20_2026-11-22'
        """
        last = self.end - timedelta(1)
        return self.first.isoformat() if last == self.first else f"{self.first.isoformat()}_{last.isoformat()}"

    @property
    def first_at(self) -> int:
        """The first instant in the window, in milliseconds since 1970."""
        return instant_of(self.first)

    @property
    def end_at(self) -> int:
        """The first instant after the window, in milliseconds since 1970."""
        return instant_of(self.end)


def instant_of(day: date) -> int:
    """Return midnight (UTC) at the beginning of *day* in milliseconds since 1970."""
    return round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)


def day_beside(day: str, days: int) -> str:
    """Return the day that is *days* after *day*.

    >>> day_beside("2026-12-01", -1), day_beside("2026-12-31", 1)
    ('2026-11-30', '2027-01-01')
    """
    return (date.fromisoformat(day) + timedelta(days)).isoformat()


def now_ms() -> int:
    """Return the current instant in milliseconds since 1970."""
    return round(datetime.now(UTC).timestamp() * 1000)


def parser(job: str, description: str, lookback_days: int) -> argparse.ArgumentParser:
    """Return the parser of a job, with the options of all jobs, such as ``--lookback-days`` with its default."""
    made = argparse.ArgumentParser(prog=job, description=description, allow_abbrev=False)
    made.set_defaults(job=job, default_lookback_days=lookback_days)
    text = "s3://BUCKET, s3a://BUCKET or a folder"
    made.add_argument("--archive", type=_archive, required=True, metavar="URI", help=text)
    days = made.add_argument_group("days (UTC), one of three forms")
    days.add_argument("--from", dest="first", metavar="DAY", help="the first day, 2026-11-20")
    days.add_argument("--to", dest="end", metavar="DAY", help="the day after the last day")
    days.add_argument("--date", type=_day, metavar="DAY", help="only this day")
    text = f"the last N whole days before today (default: {lookback_days})"
    days.add_argument("--lookback-days", type=_positive, metavar="N", help=text)
    made.add_argument("--s3-endpoint", metavar="URL", default=_endpoint(), help="URL of a local S3; omit it on AWS")
    made.add_argument("--master", default="local[*]", help="master of Spark on this machine (default: %(default)s)")
    made.add_argument("--driver-memory", default="2g", help="memory of Spark on this machine (default: %(default)s)")
    return made


def _endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse *argv*, by default the process's arguments. Raises SystemExit if an argument is bad or unknown.

    Glue adds arguments of its own. So on Glue an unknown argument is an error only if it looks like a mistyped one.
    """
    given, unknown = parser.parse_known_args(argv)
    names = [each.partition("=")[0] for each in unknown if each.startswith("--")]
    on_glue = GLUES_OWN in names
    if unknown and not on_glue:
        parser.error(f"unknown: {' '.join(unknown)}")
    known = [name.removeprefix("--") for action in parser._actions for name in action.option_strings]
    for name in names:
        for meant in get_close_matches(name.removeprefix("--").lower(), known, 1, MISTYPED):
            parser.error(f"unknown: {name}. Did you mean --{meant}?")
    given.on_glue = on_glue
    return given


def window(parser: argparse.ArgumentParser, given: argparse.Namespace, *, today_included: bool = False) -> Window:
    """Return the window in *given*, or exit with an error.

    The window of ``--lookback-days`` ends with yesterday, or with today if *today_included*.
    """
    forms = sum(
        (given.first is not None or given.end is not None, given.date is not None, given.lookback_days is not None)
    )
    if forms > 1:
        parser.error("give --from and --to, or --date, or --lookback-days")
    if given.date is not None:
        return Window(given.date, given.date + timedelta(1))
    if given.first is not None or given.end is not None:
        if given.first is None or given.end is None:
            parser.error("--from and --to belong together")
        try:
            first, end = _day(given.first), _day(given.end)
        except argparse.ArgumentTypeError as fault:
            parser.error(str(fault))
        if first >= end:
            parser.error("--to is the day after the last one, so it must be later than --from")
        return Window(first, end)
    today = datetime.now(UTC).date()
    days = given.lookback_days or given.default_lookback_days
    return Window(today - timedelta(days), today + timedelta(1) if today_included else today)


def _archive(text: str) -> str:
    """Return the URI of an archive, which is a whole bucket or a folder. Raises ArgumentTypeError."""
    parts = urlsplit(text)
    if parts.scheme in ("s3", "s3a") and parts.path.strip("/"):
        problem = (
            f"{text!r} names a part of a bucket, but an archive is a whole bucket: {parts.scheme}://{parts.netloc}"
        )
        raise argparse.ArgumentTypeError(problem)
    return text


def _day(text: str) -> date:
    try:
        found = date.fromisoformat(text) if len(text) == len("2026-11-20") else None
    except ValueError:
        found = None
    return found if found and YEAR_MIN <= found.year <= YEAR_MAX else _refuse(text, "day such as 2026-11-20")


def _positive(text: str) -> int:
    return whole_days(text) or _refuse(text, "number of days")


def whole_days(text: str) -> int:
    """Return the number of days in *text*: 0 to ``DAYS_MAX``. Raises ArgumentTypeError."""
    return int(text) if re.fullmatch(r"[0-9]{1,5}", text) and int(text) <= DAYS_MAX else _refuse(text, "number of days")


def positive(text: str) -> float:
    """Return the number in *text*, which is finite and above 0. Raises ArgumentTypeError."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    return number if math.isfinite(number) and number > 0 else _refuse(text, "number above 0")


def milliseconds(text: str) -> int:
    """Return the milliseconds in *text*, at most a day. Raises ArgumentTypeError."""
    return (
        int(text)
        if re.fullmatch(r"[0-9]{1,8}", text) and int(text) <= instant.DAY_MS
        else _refuse(text, "number of ms")
    )


def path_part(text: str) -> str:
    """Return *text*, such as a topic's name, if it may be one part of a path. Otherwise raises ArgumentTypeError."""
    return text if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", text) else _refuse(text, "name of letters, digits, _ and -")


def _refuse(text: str, what: str) -> NoReturn:
    raise argparse.ArgumentTypeError(f"{text!r} is not a {what}")


def moment(text: str) -> int:
    """Return the instant in *text*, in milliseconds since 1970: RFC 3339, or the beginning of a day.

    >>> moment("1970-01-02"), moment("1970-01-01T00:00:01Z")
    (86400000, 1000)
    """
    try:
        found = instant_of(date.fromisoformat(text)) if len(text) == 10 else instant.parse(text)
    except (ValueError, OverflowError) as fault:
        raise argparse.ArgumentTypeError(f"{text!r} is not an instant: {fault}") from None
    return found if 0 <= found < instant_of(date(YEAR_MAX, 1, 1)) else _refuse(text, "valid instant since 1970")


def property_of(parser: argparse.ArgumentParser, text: str) -> tuple[str, str]:
    """Return name and value of *text*, the NAME=VALUE of ``--property``, or exit with an error."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        parser.error("--property is NAME=VALUE")
    return name, value


def truth(text: str) -> bool:
    """Return the boolean in *text*. Glue passes no argument without a value, so a plain flag would not work.

    >>> truth("true"), truth("False")
    (True, False)
    """
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"
