"""Types and names of the Lambda API that the host, the front and the engine share."""

from dataclasses import dataclass

ERROR_HEADER = "X-Amz-Function-Error"
UNKNOWN_FUNCTION = 404


def invocation_path(function: str) -> str:
    """Return the path of Lambda's Invoke.

    >>> invocation_path("publish")
    '/2015-03-31/functions/publish/invocations'
    """
    return f"/2015-03-31/functions/{function}/invocations"


@dataclass(frozen=True)
class Invocation:
    """The result of an invocation as JSON. If *failed*, it is an error with `errorType` and `errorMessage`."""

    payload: bytes
    failed: bool = False


class UnknownFunctionError(LookupError):
    """No function of the Lambda host has this name."""
