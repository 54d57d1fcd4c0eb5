"""The API that commands talk to: its client, and what may be wrong with its address."""

from __future__ import annotations

from urllib.parse import urlsplit

from tagcast_client import BearerToken, Client, ProblemError, Retries, SigV4, UnexpectedAnswerError, UnreachableError
from tagcast_client.signing import is_aws

DEFAULT_URL = "http://127.0.0.1:8080"
_UNAUTHORIZED = (401, 403)


def client_for(url: str, profile: str | None, region: str | None, token: str | None = None) -> Client:
    """Return a client that tries once: the person at the terminal sees the fault and decides."""
    signed = SigV4(profile, region) if is_aws(url) else None
    auth = BearerToken(token) if token else signed
    return Client(url, auth=auth, retries=Retries(seconds=0), user_agent="tagcast-cli")


def url_fault(url: str) -> str | None:
    """Return why *url* is no address of an API, or None.

    >>> url_fault("http://127.0.0.1:8080"), url_fault("localhost:8080")
    (None, "'localhost:8080' is not an http:// or https:// address")
    >>> url_fault("http://[::1"), url_fault("http://a:99999")
    ("'http://[::1' is no URL: Invalid IPv6 URL", "'http://a:99999' is no URL: Port out of range 0-65535")
    """
    if not url.startswith(("http://", "https://")):
        return f"{url!r} is not an http:// or https:// address"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as fault:
        return f"{url!r} is no URL: {fault}"
    if not host:
        return f"{url!r} names no host"
    if any(not "!" <= character <= "~" for character in url):
        return f"{url!r} is no URL: it has other characters than printable ASCII"
    return f"{url!r} has a query or a fragment: an API's address has none" if parts.query or parts.fragment else None


def unreached(fault: UnreachableError) -> str:
    """Return what a user can do when nothing answered at an address.

    >>> from tagcast_client import UnreachableError
    >>> unreached(UnreachableError("https://a", "[SSL: WRONG_VERSION_NUMBER] wrong version number", refused=True))
    'It does not speak TLS. Is it http:// instead of https://?'
    """
    reason = str(fault.reason)
    if "SSL" in reason and "CERTIFICATE" in reason:
        return f"Its certificate is not trusted here: {reason}"
    if "SSL" in reason:
        return "It does not speak TLS. Is it http:// instead of https://?"
    if "Name or service" in reason or "nodename" in reason or "name resolution" in reason:
        return "There is no host of that name. Is --url (or TAGCAST_URL) spelled right?"
    if fault.refused and ("refused" in reason or "attempts failed" in reason):
        return "Is `make run` running? Another address can be given with --url or TAGCAST_URL."
    return reason


def refused_by_another(refused: ProblemError) -> str | None:
    """Return a hint where the answer is no problem of this API, or of a path that it does not have."""
    problem = refused.problem
    if refused.status in _UNAUTHORIZED:
        return "Was it signed with the right profile, or is the token for this? See --profile, --token."
    if problem.get("detail") == "no such path":
        return "The API of this address has no such path. Is there a path too many in --url?"
    if refused.status < 500 and "code" not in problem:
        return "That is no answer of tagcast's API. Is --url (or TAGCAST_URL) the address of one?"
    return None


def unexpected(url: str, fault: UnexpectedAnswerError) -> str:
    """Return what it means that an answer is not what the API says; consoles answer with pages.

    >>> unexpected("http://127.0.0.1:8081", UnexpectedAnswerError("no JSON: '<!doctype html>'"))
    'What answers at http://127.0.0.1:8081 is no API but web pages. Is it the console? Its API is at another port.'
    """
    if "<html" in str(fault).lower() or "<!doctype html" in str(fault).lower():
        return f"What answers at {url} is no API but web pages. Is it the console? Its API is at another port."
    return f"What answers at {url} is not tagcast's API, or another version of it: {fault}"
