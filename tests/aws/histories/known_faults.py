"""Promises that the shipped code is known to break today; every line goes when the code is mended.

A history that ends with one of them is no news: tests and campaigns tell it apart from new ones.
"""

from __future__ import annotations

from tests.aws.histories.plan import AwsPlan

KNOWN_FAULTS = {
    "nothing outlives its invocation": "a failed write of a batch leaves the pushes and writes of the others running",
    "attempts are kept": "what expires by the list of what is retained forgets its attempts",
    "liveness": "what neither its publisher nor the relay could queue within an hour is neither pushed nor expired",
}


def is_known(plan: AwsPlan, told: str) -> bool:
    """Say whether a history of *plan* that ended so is no news."""
    invariant = told.partition(":")[0]
    if invariant == "liveness":
        return any(outage.service in ("sqs", "dynamodb") for outage in plan.outages)
    return invariant in KNOWN_FAULTS
