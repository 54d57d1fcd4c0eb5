"""Options of `tagcast subscribe` and `subscription update`, and the settings that they name, as the API reads them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from tagcast_client.operation import Json

from tagcast_cli.durations import duration


class Strategy(StrEnum):
    """What happens after a failed attempt."""

    BACKOFF_RETRY = "BACKOFF_RETRY"
    EXPONENTIAL_DECAY_RETRY = "EXPONENTIAL_DECAY_RETRY"
    INDEPENDENT_RETRY = "INDEPENDENT_RETRY"


class Format(StrEnum):
    """How a message is wrapped for the endpoint."""

    JSON = "json"
    SIMPLIFIED = "simplified"
    CLOUDEVENTS = "cloudevents"
    CMQ_JSON = "cmq_json"
    CMQ_SIMPLIFIED = "cmq_simplified"


Url = Annotated[str | None, typer.Option("--url", help="Push to this HTTP(S) endpoint.")]
Queue = Annotated[str | None, typer.Option("--sqs", metavar="URL|ARN", help="Push to this SQS queue.")]
Function = Annotated[str | None, typer.Option("--lambda", metavar="NAME|ARN", help="Push to this Lambda function.")]
Pulled = Annotated[bool, typer.Option("--pull", help="Create a consumer group, whose members pull.")]
DeadLetterTopic = Annotated[
    str | None,
    typer.Option("--dead-letter-topic", metavar="TOPIC", help="Publish discarded messages to this topic."),
]
DeadLetterExpired = Annotated[
    bool | None,
    typer.Option("--dead-letter-expired", help="Publish expired messages to the dead-letter topic, too."),
]
AfterFailure = Annotated[
    Strategy | None,
    typer.Option("--strategy", help="Retry strategy after a failed attempt; default: INDEPENDENT_RETRY."),
]
LIFE = "life"


def _read_retries(text: str) -> int | str:
    if text != LIFE and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise typer.BadParameter(f"{text!r} is neither a whole number nor {LIFE}")
    return LIFE if text == LIFE else int(text)


# Typer takes no union as the type of an option; its parser gives a number or the word.
MaxRetries = Annotated[
    Any,
    typer.Option(
        parser=_read_retries,
        metavar="COUNT|life",
        help="Retries before a delivery is discarded; with life it is retried until it expires (BACKOFF_RETRY).",
    ),
]
Ordered = Annotated[
    bool | None,
    typer.Option("--ordered", help="Deliver the messages of an order one by one; retry the first until it expires."),
]
Interval = Annotated[int | None, duration(help="Time between retries under BACKOFF_RETRY, e.g. 30s or 5m.")]
MaxInterval = Annotated[
    int | None, duration(help="Longest time between retries whose waits double, e.g. 5m; default: 512 s.")
]
Timeout = Annotated[int | None, duration(help="Timeout of one attempt: 1 s to 30 s; default: 15 s.")]
ContentFormat = Annotated[Format | None, typer.Option("--format", help="Format of the pushed message; default: json.")]
Secret = Annotated[
    str | None,
    typer.Option(
        envvar="TAGCAST_SECRET",
        show_envvar=True,
        help="Secret that signs the pushes: whsec_…, or generate (shown once).",
    ),
]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header", metavar="NAME: VALUE", help="Header of every push over HTTP (write-only); may be repeated."
    ),
]
ClientCertificate = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Client certificate for pushes over https, as PEM with its chain.")
]
ClientKey = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Private key of the client certificate, as PEM (write-only).")
]
Signature = Annotated[
    str | None, typer.Option(metavar="v1|v1a", help="With v1a a key of the service signs as well: see tagcast keys.")
]
MaxPerSecond = Annotated[
    float | None, typer.Option(metavar="RATE", help="Maximum attempts per second, 0.01-1,000; default: no limit.")
]
BatchMessages = Annotated[int | None, typer.Option(metavar="COUNT", help="Maximum messages per batch, 2-100.")]
BatchBytes = Annotated[int | None, typer.Option(metavar="BYTES", help="Maximum bytes per batch; default: 262,144.")]
Verification = Annotated[
    str | None, typer.Option(metavar="required|none", help="Verify the endpoint before the first push, or not.")
]


def retry_of(
    strategy: Strategy | None, max_retries: int | str | None, interval: int | None, max_interval: int | None
) -> Json | None:
    """Return what was asked for of retries; whether it fits the API says."""
    asked = {
        "strategy": strategy and strategy.value,
        "max_retries": max_retries,
        "interval_seconds": interval,
        "max_interval_seconds": max_interval,
    }
    return {name: value for name, value in asked.items() if value is not None} or None


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
            "a certificate and its key are required together", param_hint="--client-certificate, --client-key"
        )
    try:
        return {"certificate": certificate.read_text("ascii"), "private_key": key.read_text("ascii")}
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not PEM"
        raise typer.BadParameter(f"cannot be read: {reason}", param_hint="--client-certificate, --client-key") from None


def headers_of(lines: list[str] | None) -> dict[str, str] | None:
    """Return the headers that are given, none of them twice; what else is wrong with them the API says."""
    headers: dict[str, str] = {}
    for line in lines or ():
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or not name or name in headers:
            raise typer.BadParameter("must be NAME: VALUE, with each name once", param_hint="--header")
        headers[name] = value
    return headers or None


def given(**settings: object) -> Json:
    """Return the settings that were given."""
    return {name: value for name, value in settings.items() if value is not None}
