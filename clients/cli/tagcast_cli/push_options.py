"""Options of `tagcast subscribe` and `subscription update`, converted to settings of the API, and endpoints as text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from tagcast_client.operation import Json, drop_none
from tagcast_client.settings import SUBSCRIPTION_SETTINGS

from tagcast_cli.filters import FilterOptions
from tagcast_cli.instant import duration
from tagcast_cli.options import SettingOptions


def endpoint_of(url: str | None, queue: str | None, function: str | None, *, is_pulled: bool = False) -> Json:
    """Return an endpoint in the API's form, from the one parameter that is given. *is_pulled* is the option ``--pull``.

    Raises BadParameter unless exactly one parameter is given.

    >>> endpoint_of("https://example.com/hook", None, None)
    {'protocol': 'https', 'url': 'https://example.com/hook'}
    >>> endpoint_of(None, "arn:aws:sqs:eu-west-1:123456789012:orders", None)
    {'protocol': 'sqs', 'arn': 'arn:aws:sqs:eu-west-1:123456789012:orders'}
    """
    match url, queue, function, is_pulled:
        case None, None, None, True:
            return {"protocol": "pull"}
        case str(), None, None, False:
            return {"protocol": "http" if url.lower().startswith("http:") else "https", "url": url}
        case None, str(), None, False:
            return {"protocol": "sqs", "arn" if queue.startswith("arn:") else "queue_url": queue}
        case None, None, str(), False:
            return {"protocol": "lambda", "function": function}
        case _:
            raise typer.BadParameter("give exactly one endpoint: --url, --sqs, --lambda or --pull")


def protocol_of(endpoint: Any) -> Any:
    """Return the protocol of *endpoint*, an endpoint in the API's form. Return None for any other value."""
    return endpoint.get("protocol") if isinstance(endpoint, dict) else None


def endpoint_text(endpoint: Any) -> str:
    """Return an endpoint as short text."""
    if not isinstance(endpoint, dict):
        return "—"
    address = next((endpoint[name] for name in ("url", "queue_url", "arn", "function") if endpoint.get(name)), "")
    return str(address) if endpoint.get("url") else f"{endpoint.get('protocol')} {address}"


SCHEMES = ("https://", "http://")
LIFE = "life"
Strategy = Literal["BACKOFF_RETRY", "EXPONENTIAL_DECAY_RETRY", "INDEPENDENT_RETRY"]
SECRET_VARIABLE = "TAGCAST_SECRET"
"""The environment variable for a secret, so that the secret does not appear in a command."""


def _read_retries(text: str) -> int | str:
    if text != LIFE and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise typer.BadParameter(f"{text!r} is neither a whole number nor {LIFE}")
    return LIFE if text == LIFE else int(text)


@dataclass(frozen=True, kw_only=True)
class SubscriptionOptions:
    """The options of a subscription. *settings* holds all settings without a field of their own."""

    url: Annotated[str | None, typer.Option(help="Push to this HTTP(S) endpoint.")] = None
    sqs: Annotated[str | None, typer.Option(metavar="URL|ARN", help="Push to this SQS queue.")] = None
    function: Annotated[
        str | None, typer.Option("--lambda", metavar="NAME|ARN", help="Push to this Lambda function.")
    ] = None
    pull: Annotated[bool, typer.Option("--pull", help="Create a consumer group, whose members pull.")] = False
    filter: FilterOptions
    strategy: Annotated[
        Strategy | None, typer.Option(help="Retry strategy after a failed attempt; default: INDEPENDENT_RETRY.")
    ] = None
    # Typer does not accept a union type; the parser returns a number or the word life.
    max_retries: Annotated[
        Any,
        typer.Option(
            parser=_read_retries,
            metavar="COUNT|life",
            help="Retries before a delivery is discarded; with life it is retried until it expires (BACKOFF_RETRY).",
        ),
    ] = None
    interval: Annotated[int | None, duration(help="Time between retries under BACKOFF_RETRY, e.g. 30s or 5m.")] = None
    max_interval: Annotated[
        int | None, duration(help="Maximum time between retries if their waits double, e.g. 5m; default: 512 s.")
    ] = None
    batch_messages: Annotated[int | None, typer.Option(metavar="COUNT", help="Maximum messages per batch, 2-100.")] = (
        None
    )
    batch_bytes: Annotated[
        int | None, typer.Option(metavar="BYTES", help="Maximum bytes per batch; default: 262,144.")
    ] = None
    secret: Annotated[
        str | None, typer.Option(help="Secret that signs the pushes: whsec_…, or generate (shown once).")
    ] = None
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME: VALUE", help="Header of every push over HTTP (write-only); may be repeated."),
    ] = None
    client_certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Client certificate for pushes over https, as PEM with its chain."),
    ] = None
    client_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Private key of the client certificate, as PEM (write-only).")
    ] = None
    settings: Annotated[Json, SettingOptions(SUBSCRIPTION_SETTINGS, leave_out=("secret",))]

    def body(self) -> Json:
        """Return the given settings in the API's form. The API validates them. A bad endpoint raises BadParameter."""
        retry = drop_none(strategy=self.strategy, max_retries=self.max_retries, interval_seconds=self.interval)
        retry |= drop_none(max_interval_seconds=self.max_interval)
        batch = drop_none(max_messages=self.batch_messages, max_bytes=self.batch_bytes)
        return self.settings | drop_none(
            endpoint=self._endpoint(),
            filter=self.filter.filter(),
            retry=retry or None,
            batch=batch or None,
            secret=self.secret,
            headers=self._headers() or None,
            client_certificate=self._certificate(),
        )

    def _endpoint(self) -> Json | None:
        if self.url is self.sqs is self.function is None and not self.pull:
            return None
        if self.url and not self.url.lower().startswith(SCHEMES):
            raise typer.BadParameter("must begin with https:// or http://", param_hint="--url")
        if self.sqs and not self.sqs.startswith(("arn:", *SCHEMES)):
            raise typer.BadParameter("must be the URL or the ARN of a queue", param_hint="--sqs")
        return endpoint_of(self.url, self.sqs, self.function, is_pulled=self.pull)

    def _certificate(self) -> Json | None:
        """Return the certificate and the key from their files, or None."""
        hint = "--client-certificate, --client-key"
        if self.client_certificate is None and self.client_key is None:
            return None
        if self.client_certificate is None or self.client_key is None:
            raise typer.BadParameter("a certificate and its key are required together", param_hint=hint)
        try:
            certificate, key = self.client_certificate.read_text("ascii"), self.client_key.read_text("ascii")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not PEM"
            raise typer.BadParameter(f"cannot be read: {reason}", param_hint=hint) from None
        return {"certificate": certificate, "private_key": key}

    def _headers(self) -> dict[str, str]:
        """Return the given headers. A header given twice is an error."""
        headers: dict[str, str] = {}
        for line in self.header or ():
            name, colon, value = (part.strip() for part in line.partition(":"))
            if not colon or not name or name in headers:
                raise typer.BadParameter("must be NAME: VALUE, with each name once", param_hint="--header")
            headers[name] = value
        return headers
