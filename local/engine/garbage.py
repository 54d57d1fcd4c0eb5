"""Tunes the garbage collector of long-lived processes of the stack."""

import gc

THRESHOLDS = 20_000, 20, 50


def look_seldom() -> None:
    """Freeze the current objects and collect rarely: requests leave hardly any cycles."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
