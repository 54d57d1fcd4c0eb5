"""Lets a process open more files and connections than most systems allow by default."""

import resource

FILES_MAX = 10_240
"""Every system allows this number to a process that may open any number."""


def raise_limit() -> None:
    """Raise the limit of open files to :data:`FILES_MAX`, or as far as this user may. Never lower it."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(now, min(most, FILES_MAX)), most))
