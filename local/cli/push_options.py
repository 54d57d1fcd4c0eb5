"""Options of `tagcast subscribe` that say how pushes look, as the API reads them."""

from __future__ import annotations

from pathlib import Path

import typer
from tagcast_client.operation import Json


def batch_of(messages: int | None, octets: int | None) -> Json | None:
    """Return what was asked for; what a batch lacks the API says."""
    asked = {"max_messages": messages, "max_bytes": octets}
    return {name: value for name, value in asked.items() if value is not None} or None


def certificate_of(certificate: Path | None, key: Path | None) -> Json | None:
    """Return the contents of both files; what is wrong with them the API says."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise typer.BadParameter(
            "a certificate and its key go together", param_hint="--client-certificate, --client-key"
        )
    try:
        return {"certificate": certificate.read_text("ascii"), "private_key": key.read_text("ascii")}
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no PEM"
        raise typer.BadParameter(f"cannot be read: {reason}", param_hint="--client-certificate, --client-key") from None


def headers_of(lines: list[str] | None) -> dict[str, str] | None:
    """Return the headers that are given, none of them twice; what else is wrong with them the API says."""
    headers: dict[str, str] = {}
    for line in lines or ():
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or not name or name in headers:
            raise typer.BadParameter("must be NAME: VALUE, every name once", param_hint="--header")
        headers[name] = value
    return headers or None
