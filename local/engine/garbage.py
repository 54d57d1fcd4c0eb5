"""Makes garbage collections cheap in the long-lived processes of the stack."""

import gc

THRESHOLDS = 20_000, 20, 50


def collect_rarely() -> None:
    """Collect garbage rarely, and never examine the objects that exist now. Requests leave few reference cycles."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
