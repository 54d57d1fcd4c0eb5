"""The command line `tagcast`. The local stack and the console share this module, so it imports little."""

import os
import re
from collections.abc import Sequence

OTHERS = 0o077
"""The umask of files that commands write: other users of this machine get no rights."""
JOB_PROGRESS = "progress: "
"""The prefix of a Spark job's progress lines on standard error."""
JOB_LINES_KEPT = 30
"""The error of a failed job quotes this many of its last lines on standard error."""
JOB_REFUSED = 2
"""The exit code of a job that refuses its arguments or its archive. The last line on standard error is the reason."""
SPARK_STARTS = "starting Spark"
"""The first stage of a job that has to start Spark, locally or on AWS."""


def bypass_proxies() -> None:
    """Bypass proxies for requests to this machine, in this process and in the processes that it starts.

    Otherwise a local stack does not start if ``HTTP_PROXY`` is set.
    """
    known = os.environ.get("no_proxy", os.environ.get("NO_PROXY", ""))
    if known.strip() != "*":  # It stands for all hosts only alone.
        bypassed = ",".join(filter(None, (known, "127.0.0.1", "localhost")))
        os.environ |= {"no_proxy": bypassed, "NO_PROXY": bypassed}


def quote_job(what: str, code: int, last: Sequence[str]) -> str:
    """Return the error text of a job that ended with the exit code *code*.

    *last* are the last lines of the job's output. If the job refused its arguments, the text is the reason in the last
    line. Otherwise the text is *what*, followed by *last*.

    >>> quote_job("audit broke off:", 2, ["usage: audit [-h]", "audit: error: 'x' is no day"])
    "'x' is no day"
    >>> quote_job("audit broke off:", 137, ["progress: audit"])
    'audit broke off:\\nprogress: audit'
    """
    if code == JOB_REFUSED and last:
        return re.sub(r"^\w+: error: ", "", last[-1])
    return "\n".join((what, *last))
