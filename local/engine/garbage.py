"""How seldom garbage that refers to itself is looked for, in processes of the stack that live long."""

import gc

THRESHOLDS = 20_000, 20, 50


def look_seldom() -> None:
    """Leave alone for good what this process has by now, and look seldom: what it serves leaves hardly any."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
