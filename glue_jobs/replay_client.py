"""The way of replayed messages to the API: one request at a time, at a steady rate, tried again under the same key."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

ATTEMPTS_MAX = 8
PAUSE_S, PAUSE_S_MAX = 0.5, 60.0
TIMEOUT_S = 60
BUSY = (429, 500, 502, 503, 504)

Sign = Callable[[str, bytes, Mapping[str, str]], Mapping[str, str]]
"""Returns the headers of a POST to a URL, signed."""


class RefusedError(RuntimeError):
    """The API refused a request, or did not take it in all its attempts."""


@dataclass(slots=True)
class Pace:
    """At most *rate* messages a second, counted from the first one."""

    rate: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    _free_at: float = 0.0

    def wait(self, messages: int) -> None:
        """Wait until *messages* more may be sent."""
        now = self.clock()
        if self._free_at > now:
            self.sleep(self._free_at - now)
        self._free_at = max(self._free_at, now) + messages / self.rate


def unsigned(url: str, body: bytes, headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return *headers* as they are."""
    return headers


def signer(region: str | None) -> Sign:
    """Return a function that signs for API Gateway with the credentials of the environment (SigV4)."""
    # The one use of AWS in the jobs: Glue has botocore, and nothing else here needs it.
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.session import Session

    session = Session()
    where = region or session.get_config_variable("region")
    credentials = session.get_credentials()
    if credentials is None:
        raise RefusedError("no credentials to sign with")

    def sign(url: str, body: bytes, headers: Mapping[str, str]) -> Mapping[str, str]:
        request = AWSRequest("POST", url, headers=dict(headers), data=body)
        SigV4Auth(credentials, "execute-api", where).add_auth(request)
        return dict(request.headers)

    return sign


@dataclass(slots=True)
class ReplayClient:
    """Posts to the replay route of one subscription."""

    api: str
    topic: str
    subscription: str
    pace: Pace
    sign: Sign = unsigned
    pause: Callable[[float], object] = field(default=time.sleep)

    @property
    def url(self) -> str:
        """Return the address of the route."""
        base = self.api.rstrip("/")
        return f"{base}/topics/{quote(self.topic)}/subscriptions/{quote(self.subscription)}/replay"

    def post(self, messages: Sequence[Mapping[str, Any]], key: str) -> list[dict[str, Any]]:
        """Send *messages* and return one result each. Raises RefusedError."""
        self.pace.wait(len(messages))
        body = json.dumps({"messages": messages}, ensure_ascii=False).encode()
        fault = "?"
        for attempt in range(ATTEMPTS_MAX):
            headers = {"Content-Type": "application/json", "Idempotency-Key": key}
            request = urllib.request.Request(self.url, body, dict(self.sign(self.url, body, headers)), method="POST")
            wait_s = min(PAUSE_S_MAX, PAUSE_S * 2**attempt)
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                    results: list[dict[str, Any]] = json.load(answer)["results"]
                    return results
            except urllib.error.HTTPError as error:
                fault = f"http {error.code}: {error.read(500).decode(errors='replace')}"
                if error.code not in BUSY:
                    break
                asked = error.headers.get("Retry-After", "")
                wait_s = max(wait_s, min(PAUSE_S_MAX, float(asked))) if asked.isdigit() else wait_s
            except (OSError, ValueError) as error:
                fault = type(error).__name__
            if attempt + 1 < ATTEMPTS_MAX:
                self.pause(wait_s)
        raise RefusedError(f"{key}: {fault}")
