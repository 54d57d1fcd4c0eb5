"""The API client of the commands, and texts with an error's remedy, e.g. for a wrong address or a missing package."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Timer
from typing import Any

from rich.text import Text
from tagcast_client import BearerToken, Client, ProblemError, Retries, SigV4, UnexpectedAnswerError, UnreachableError
from tagcast_client.operation import Answer, checked_url
from tagcast_client.signing import is_aws

from tagcast_cli.screen import console

DEFAULT_URL = "http://127.0.0.1:8080"
_UNAUTHORIZED = (401, 403)
_OF_GATEWAY = (413, 429)
"""Further statuses with which API Gateway itself refuses requests. Its responses have no ``code``."""

_NO_TLS = ("WRONG_VERSION_NUMBER", "record layer failure")
"""The errors of older and newer OpenSSL if the answer of a server is not TLS."""

_IN_CHECKOUT = "Run the command in a checkout of tagcast, after `make install` (for jobs: `make spark`)."
REMEDIES = {
    **dict.fromkeys(("boto3", "botocore"), "Install it with: pip install boto3"),
    **dict.fromkeys(("glue_jobs", "local", "tagcast", "tagcast_aws"), _IN_CHECKOUT),
}
"""The remedies for packages that only some commands need."""


@contextmanager
def waiting_noted(url: str, after_s: float = 3.0) -> Iterator[None]:
    """Run the block. After *after_s* seconds in it, print in the terminal that the command waits for *url*."""
    note = Text(f"Waiting for an answer from {url} … Ctrl-C stops.", style="dim")
    timer = Timer(after_s, console(to_errors=True).print, [note])
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


class ApiClient(Client):
    """An API client that refuses answers of other servers. Otherwise commands could print one as a success."""

    def request(self, *args: Any, **options: Any) -> Answer:
        """Send a request. Raises UnexpectedAnswerError for the answer of another server: it lacks tagcast-version."""
        with waiting_noted(self.url):
            answer = super().request(*args, **options)
        if "tagcast-version" not in answer.headers:
            raise UnexpectedAnswerError(f"the answer has no header tagcast-version: {answer.text[:200]!r}")
        return answer


def client_for(url: str, profile: str | None, region: str | None, token: str | None = None) -> ApiClient:
    """Return an API client for *url*. The client does not retry, because the user sees each error and decides.

    The client signs requests to AWS. With a *profile* or *region*, it also signs requests to any other https URL, which
    may be a deployment's own domain. With a *token*, it sends the token instead of a signature.
    """
    is_signed = is_aws(url) or (url.startswith("https:") and (profile or region) is not None)
    signed = SigV4(profile, region) if is_signed else None
    auth = BearerToken(token) if token else signed
    return ApiClient(url, auth=auth, retries=Retries(seconds=0), user_agent="tagcast-cli")


def pages(
    api: Client,
    path: str,
    limit: int | None = None,
    cursor: str | None = None,
    query: Mapping[str, Any] | None = None,
) -> Iterator[Answer]:
    """Yield the pages of the list at *path*, starting at *cursor*. If *cursor* is None, start at the first page.

    *limit* is the number of items on a page; None means the API's default. *query* has further query parameters.
    """
    while True:
        answer = api.request("GET", path, query={"limit": limit, "cursor": cursor, **(query or {})})
        yield answer
        cursor = answer.json.get("next_cursor")
        if not cursor:
            return


def url_fault(url: str) -> str | None:
    """Return why *url* is not the address of an API, or None if it may be one."""
    try:
        checked_url(url)
    except ValueError as fault:
        return str(fault)
    return None


def explain_unreachable(fault: UnreachableError) -> str:
    """Return the remedy for an unreachable address, or the reason if no remedy is known.

    >>> from tagcast_client import UnreachableError
    >>> fault = UnreachableError("https://a", "[SSL: WRONG_VERSION_NUMBER] wrong version number", refused=True)
    >>> explain_unreachable(fault)
    'The server does not use TLS. Try http:// instead of https://.'
    """
    reason = str(fault.reason)
    if "SSL" in reason and "CERTIFICATE" in reason:
        return f"The TLS certificate is not trusted: {reason}"
    if any(words in reason for words in _NO_TLS):
        return "The server does not use TLS. Try http:// instead of https://."
    if "SSL" in reason:
        return f"TLS failed. Check --url or TAGCAST_URL: {reason}"
    if "Name or service" in reason or "nodename" in reason or "name resolution" in reason:
        return "The host name does not resolve. Check --url or TAGCAST_URL."
    if fault.refused and ("refused" in reason or "attempts failed" in reason):
        return "Start the local stack with `make run`, or give another address with --url or TAGCAST_URL."
    if "timed out" in reason and fault.refused:
        return "The host does not respond. Check --url or TAGCAST_URL, and firewalls."
    if "timed out" in reason:
        return "The server did not answer in time. If the command changes something, the change may still happen."
    return reason


def explain_refusal(refused: ProblemError) -> str | None:
    """Return a hint for missing rights, an unknown path, or an answer that is not from this API; else None."""
    problem, detail = refused.problem, str(refused.problem.get("detail"))  # Another server may send any type.
    if refused.status in _UNAUTHORIZED:
        return "Check the AWS profile (--profile) or the token (--token)."
    if detail.startswith("the path does not exist"):
        return "The API at this address does not have this path. Check --url for an extra path."
    is_of_aws = refused.status >= 500 or refused.status in _OF_GATEWAY
    is_page = detail.startswith("<")
    if "code" not in problem and (is_page or not is_of_aws):
        return "The response is not from the tagcast API. Check --url or TAGCAST_URL."
    return None


def explain_unexpected(url: str, fault: UnexpectedAnswerError) -> str:
    """Return an explanation of an answer from *url* that the client cannot read.

    A console answers with web pages, and so does a proxy that asks for a login.

    >>> explain_unexpected("http://127.0.0.1:8081", UnexpectedAnswerError("no JSON: '<!doctype html>'"))
    'http://127.0.0.1:8081 serves web pages, not the API. It may be a proxy, or a console: its API has another port.'
    """
    if "<html" in str(fault).lower() or "<!doctype html" in str(fault).lower():
        return f"{url} serves web pages, not the API. It may be a proxy, or a console: its API has another port."
    return f"The server at {url} is not the tagcast API, or has another version: {fault}"


def need(module: str) -> None:
    """Raise ModuleNotFoundError if *module*, which will run as a separate program, is not installed."""
    if find_spec(module) is None:
        raise ModuleNotFoundError(f"no module {module}", name=module)


def explain_missing(missing: ModuleNotFoundError) -> str | None:
    """Return the remedy for a missing package; None for a package without a known remedy.

    >>> explain_missing(ModuleNotFoundError(name="boto3"))
    'this command needs boto3, which is not installed. Install it with: pip install boto3'
    >>> explain_missing(ModuleNotFoundError(name="antigravity")) is None
    True
    """
    package = (missing.name or "").partition(".")[0]
    remedy = REMEDIES.get(package)
    return None if remedy is None else f"this command needs {package}, which is not installed. {remedy}"
