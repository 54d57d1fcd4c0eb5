"""Remedies for commands whose optional packages are not installed."""

from __future__ import annotations

from importlib.util import find_spec

_CHECKOUT = "Run the command in a checkout of tagcast, after `make install` (for jobs: `make spark`)."
REMEDIES = {
    "boto3": "Install it with: pip install boto3",
    "botocore": "Install it with: pip install boto3",
    "glue_jobs": _CHECKOUT,
    "local": _CHECKOUT,
    "tagcast": _CHECKOUT,
    "tagcast_aws": _CHECKOUT,
}


def need(module: str) -> None:
    """Raise ModuleNotFoundError if a module that will run as a separate program is not installed."""
    if find_spec(module) is None:
        raise ModuleNotFoundError(f"no module {module}", name=module)


def sentence_of(missing: ModuleNotFoundError) -> str | None:
    """Return the remedy for a missing package; None for a package without a known remedy.

    >>> sentence_of(ModuleNotFoundError(name="boto3"))
    'this command needs boto3, which is not installed. Install it with: pip install boto3'
    >>> sentence_of(ModuleNotFoundError(name="antigravity")) is None
    True
    """
    package = (missing.name or "").partition(".")[0]
    remedy = REMEDIES.get(package)
    return None if remedy is None else f"this command needs {package}, which is not installed. {remedy}"
