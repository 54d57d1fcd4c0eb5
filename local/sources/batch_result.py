"""Parses a function's partial batch response (`ReportBatchItemFailures`)."""

from collections.abc import Callable, Sequence

from local.functions.quick_json import decode
from local.functions.worker import Invocation

Invoke = Callable[[str, bytes], Invocation]


def failed_items(invocation: Invocation, identifiers: Sequence[str]) -> set[str]:
    """Return the ids that failed, among *identifiers*. All have failed if the function failed or names another id.

    >>> sorted(failed_items(Invocation(b'{"batchItemFailures": [{"itemIdentifier": "b"}]}'), ["a", "b"]))
    ['b']
    >>> sorted(failed_items(Invocation(b'{"batchItemFailures": [{"itemIdentifier": ""}]}'), ["a", "b"]))
    ['a', 'b']
    >>> failed_items(Invocation(b"null"), ["a", "b"])
    set()
    """
    everything = set(identifiers)
    if invocation.failed:
        return everything
    answer = decode(invocation.payload or b"null") or {}
    if not isinstance(answer, dict):
        return everything
    failed = {each.get("itemIdentifier") for each in answer.get("batchItemFailures") or []}
    return failed & everything if failed <= everything else everything
