"""Tunes the garbage collector of long-lived processes of the stack."""

import gc

THRESHOLDS = 20_000, 20, 50


def look_seldom() -> None:
    """Make collections of garbage rare, and exclude all current objects. Requests leave few reference cycles."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
