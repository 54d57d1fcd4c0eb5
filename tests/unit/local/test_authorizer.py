"""The instants of a token, to the second: what a test that asks by the clock of the wall cannot hold still."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from local.front.authorizer import Grounds, JwtAuthorizer
from local.front.http_event import Response
from tests.unit.api.test_tokens import AUDIENCE, Issuer, issuer

__all__ = ["issuer"]
NOW = 1_800_000_000


@pytest.mark.parametrize(
    ("claims", "is_good"),
    [
        ({}, True),
        ({"exp": NOW}, False),
        ({"nbf": NOW}, True),
        ({"nbf": NOW + 1}, False),
        ({"iat": NOW + 1}, False),
    ],
)
def test_a_token_is_good_from_its_first_instant_to_before_its_end(
    issuer: Issuer, claims: dict[str, Any], is_good: bool
) -> None:
    grounds = Grounds(issuer.url, (AUDIENCE,), {("GET", "/topics"): ("read",)})
    token = issuer.token(**{"scope": "read", "iat": NOW, "exp": NOW + 1, **claims})

    answer = asyncio.run(JwtAuthorizer(grounds, now_s=lambda: NOW).authorize("GET", "/topics", f"Bearer {token}"))

    assert (not isinstance(answer, Response)) == is_good
    assert is_good or (isinstance(answer, Response) and answer.status == 401 and b"not valid now" in answer.body)
