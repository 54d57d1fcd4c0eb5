"""The template's parameters on this machine: defaults for the local stack, and a check of the user's names.

The engine checks the values.
"""

from collections.abc import Iterable
from difflib import get_close_matches

ANY_SUBSCRIBER = {"SubscriberQueueNames": "*", "SubscriberFunctionNames": "*"}
"""Any queue and any function of the account may be an endpoint."""

LOCAL = {
    **ANY_SUBSCRIBER,
    "AllowPrivateEndpoints": "any",
    "CmqEndpoint": "true",
    "EndpointVerification": "optional",
    "TopicKnownSeconds": "0",
    "ShortWaitSeconds": "0",
    "DeadLetterTopics": "*:*",
    "WaitingPerTopic": "8",
    "ArchiveBodies": "*",
    "LogLevel": "DEBUG",
}
"""The defaults of the local stack, which has only one user.

Endpoints may be anywhere and need no verification. Dead letters may go to any topic. All bodies are archived. CMQ's
routes are open. `make run` prints every attempt. Requests about one topic never occupy all workers of `pull`. Requests
that change a topic are answered at once. The few workers of `retry` never wait for the time of a retry.
"""


class ParameterError(ValueError):
    """The template has no such parameter."""


def check_names(described: Iterable[str], given: Iterable[str]) -> None:
    """Raise ParameterError for the first name in *given* that is not one of the template's parameters *described*.

    >>> check_names(["JwtIssuer"], ["JwtIsuer"])
    Traceback (most recent call last):
        ...
    local.template.parameters.ParameterError: --parameter JwtIsuer is not in the template; did you mean JwtIssuer?
    """
    known = list(described)
    for name in given:
        if name not in known:
            meant = [f"; did you mean {each}?" for each in get_close_matches(name, known, 1)]
            raise ParameterError(f"--parameter {name} is not in the template{''.join(meant)}")
