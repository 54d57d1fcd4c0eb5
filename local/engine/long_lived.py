"""Prepares the long-lived processes of the stack: many connections, and cheap garbage collections."""

import gc
import resource

THRESHOLDS = 20_000, 20, 50
FILES_MAX = 10_240
"""Every system allows this number of open files to a process that may open any number."""


def collect_rarely() -> None:
    """Collect garbage rarely, and never examine the objects that exist now. Requests leave few reference cycles."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def raise_limit() -> None:
    """Raise the limit of open files to :data:`FILES_MAX`, or as far as this user may. Never lower it."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(now, min(most, FILES_MAX)), most))
