"""The template's parameters on this machine: defaults for the local stack, and a check of the user's values."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

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
    """A parameter does not exist, or has a value that CloudFormation would refuse."""


def check_parameters(described: Mapping[str, Mapping[str, Any]], given: Mapping[str, str]) -> None:
    """Raise ParameterError for the first invalid value in *given*. *described* are the parameters in the template.

    >>> check_parameters({"TimeScale": {"Type": "String", "AllowedPattern": "^[0-9]+$"}}, {"TimeScale": "fast"})
    Traceback (most recent call last):
        ...
    local.template.parameters.ParameterError: --parameter TimeScale='fast' does not match ^[0-9]+$
    >>> check_parameters({"JwtIssuer": {"Type": "String"}}, {"JwtIsuer": "https://id.example.com"})
    Traceback (most recent call last):
        ...
    local.template.parameters.ParameterError: --parameter JwtIsuer is not in the template; did you mean JwtIssuer?
    """
    for name, value in given.items():
        if name not in described:
            meant = get_close_matches(name, described, 1)
            raise ParameterError(
                f"--parameter {name} is not in the template" + (f"; did you mean {meant[0]}?" if meant else "")
            )
        if fault := _fault_of(described[name], value):
            raise ParameterError(f"--parameter {name}={value!r} {fault}")


def _fault_of(rule: Mapping[str, Any], value: str) -> str | None:
    allowed = rule.get("AllowedValues")
    if allowed and value not in map(str, allowed):
        return f"must be one of {', '.join(map(str, allowed))}"
    if rule["Type"] == "Number":
        try:
            number = float(value)
        except ValueError:
            return "is not a number"
        least, most = float(rule.get("MinValue", "-inf")), float(rule.get("MaxValue", "inf"))
        return None if least <= number <= most else f"must be from {least:g} to {most:g}"
    if "AllowedPattern" in rule and not re.search(str(rule["AllowedPattern"]), value):
        return f"does not match {rule['AllowedPattern']}"
    return None
