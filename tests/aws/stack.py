"""The project's template as the box deploys it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from local.rules.needs import Account
from local.template.intrinsics import Resolver
from local.template.parameters import ANY_SUBSCRIBER
from local.template.translated import Template, read_template

TEMPLATE = Path(__file__).parents[2] / "template.yaml"
REGION, ACCOUNT = "us-east-1", "123456789012"


@cache
def translated() -> Template:
    """The project's template after the SAM transform; translated once per process, and not to be changed."""
    return read_template(TEMPLATE)


@cache
def deployed(*chosen: tuple[str, str]) -> Resolver:
    """The template with the names and ARNs that its resources have on the box; *chosen* are parameters of its owner."""
    parameters = {**ANY_SUBSCRIBER, "EndpointVerification": "optional", **dict(chosen)}
    return Resolver(translated(), Account(ACCOUNT, REGION), parameters=parameters)
