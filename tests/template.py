"""The template as it is written, with its intrinsic functions in their long form."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from samtranslator.yaml_helper import intrinsics_multi_constructor

TEMPLATE = Path(__file__).resolve().parents[1] / "template.yaml"


@cache
def template_source(template: Path = TEMPLATE) -> dict[str, Any]:
    """Return a template, read once by a process: nobody changes what is returned.

    The loader in C takes a tenth of the time of the one that the translator of SAM has.
    """
    yaml.CSafeLoader.add_multi_constructor("!", intrinsics_multi_constructor)
    read: dict[str, Any] = yaml.load(template.read_bytes(), yaml.CSafeLoader)
    return read


def declared() -> dict[str, Any]:
    """Return what the template declares, by logical ids."""
    found: dict[str, Any] = template_source()["Resources"]
    return found
