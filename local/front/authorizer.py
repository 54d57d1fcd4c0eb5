"""The JWT authorizer of an HTTP API, as API Gateway documents it: who may call a route, by a token of an issuer."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from local.front.http_event import Response, problem
from local.template.intrinsics import Resolver
from local.template.translated import API

JWT = "JWT"
"""The name of the authorizer in the template."""

FETCH_S = 5.0
# RFC 8017, 9.2: what stands before the digest of each hash in a signature. API Gateway takes RSA alone.
_RSA_DIGESTS = {
    "RS256": ("sha256", bytes.fromhex("3031300d060960864801650304020105000420")),
    "RS384": ("sha384", bytes.fromhex("3041300d060960864801650304020205000430")),
    "RS512": ("sha512", bytes.fromhex("3051300d060960864801650304020305000440")),
}

Keys = Mapping[str, tuple[int, int]]
"""Modulus and exponent of the issuer's RSA keys by their ids."""


class TokenError(ValueError):
    """A token that is none of the issuer's, or is none now; the message says why, without the token."""


@dataclass(frozen=True)
class Grounds:
    """Whose tokens are taken, for which audiences, and of which scopes a route asks for one (open ones ask none)."""

    issuer: str
    audiences: tuple[str, ...]
    scopes: Mapping[tuple[str, str], tuple[str, ...]]


def grounds_of(resolver: Resolver) -> Grounds | None:
    """Read the authorizer of the template's API; None where IAM authorizes instead."""
    _, api = next(resolver.template.of_type(API))
    schemes = resolver.value(api["Body"]["components"]["securitySchemes"])
    if JWT not in schemes:
        return None
    configuration = schemes[JWT]["x-amazon-apigateway-authorizer"]["jwtConfiguration"]
    scopes = {
        (route.method, route.path): tuple(scope for needed in resolver.value(route.security) for scope in needed[JWT])
        for route in resolver.template.routes()
    }
    return Grounds(configuration["issuer"], tuple(configuration["audience"]), scopes)


@dataclass
class JwtAuthorizer:
    """Judges requests on their grounds; keys of the issuer are fetched when a token names one that is not known."""

    grounds: Grounds
    now_s: Callable[[], float] = time.time
    _keys: Keys = field(default_factory=dict)

    async def authorize(self, method: str, path: str, authorization: str | None) -> Mapping[str, Any] | Response:
        """What the event of a route says of the caller (nothing for an open route), or the answer that refuses it."""
        needed = self.grounds.scopes[method, path]
        if not needed:
            return {}
        try:
            claims = await self._claims((authorization or "").removeprefix("Bearer ").strip())
        except TokenError as fault:
            return problem(401, "Unauthorized", str(fault))
        scopes = str(claims.get("scope", claims.get("scp", ""))).split()
        if not set(needed) & set(scopes):
            return problem(403, "Forbidden", f"the token has none of the scopes {', '.join(needed)}")
        return {"jwt": {"claims": {name: as_text(value) for name, value in claims.items()}, "scopes": scopes}}

    async def _claims(self, token: str) -> dict[str, Any]:
        head, payload, signature, signed = _parts(token)
        key_id = str(head.get("kid"))
        if key_id not in self._keys:
            self._keys = await asyncio.to_thread(fetch_keys, self.grounds.issuer)
        if key_id not in self._keys or not is_signed(str(head.get("alg")), self._keys[key_id], signed, signature):
            raise TokenError("the token is not signed by a key of its issuer")
        self._check(payload)
        return payload

    def _check(self, claims: Mapping[str, Any]) -> None:
        if claims.get("iss") != self.grounds.issuer:
            raise TokenError("the token is another issuer's")
        named = claims.get("aud", claims.get("client_id"))
        if set(self.grounds.audiences).isdisjoint(named if isinstance(named, list) else [named]):
            raise TokenError("the token is for another audience")
        now = self.now_s()
        if not claims.get("nbf", now) <= now or not claims.get("iat", now) <= now < claims.get("exp", 0):
            raise TokenError("the token is not valid now")


def as_text(value: Any) -> str:
    """A claim as the event has it: a list without quotes and commas.

    >>> as_text(["orders", "bills-*"]), as_text(7), as_text(True)
    ('[orders bills-*]', '7', 'true')
    """
    if isinstance(value, list):
        return f"[{' '.join(map(as_text, value))}]"
    return value if isinstance(value, str) else json.dumps(value)


def is_signed(algorithm: str, key: tuple[int, int], signed: bytes, signature: bytes) -> bool:
    """Whether an RSA signature (PKCS #1, version 1.5) is the key's."""
    if algorithm not in _RSA_DIGESTS:
        return False
    modulus, exponent = key
    name, before = _RSA_DIGESTS[algorithm]
    length = (modulus.bit_length() + 7) // 8
    ending = b"\0" + before + hashlib.new(name, signed).digest()
    expected = b"\0\1" + b"\xff" * (length - 2 - len(ending)) + ending
    found = pow(int.from_bytes(signature), exponent, modulus).to_bytes(length)
    return len(signature) == length and found == expected


def fetch_keys(issuer: str) -> Keys:
    """The keys of an issuer, by the addresses that OpenID Connect Discovery gives."""
    try:
        described = _fetched(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        listed = _fetched(described["jwks_uri"])["keys"]
        return {key["kid"]: (_number(key["n"]), _number(key["e"])) for key in listed if key["kty"] == "RSA"}
    except (OSError, ValueError, KeyError) as fault:
        raise TokenError(f"the keys of the issuer cannot be read ({type(fault).__name__})") from fault


def _fetched(url: str) -> Any:
    if not url.startswith(("https://", "http://127.0.0.1")):
        raise TokenError("an issuer is at an https address")
    with urllib.request.urlopen(url, timeout=FETCH_S) as answer:
        return json.loads(answer.read())


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes, bytes]:
    """Head, claims and signature of a token, and what is signed."""
    try:
        head, payload, signature = token.split(".")
        return json.loads(_octets(head)), json.loads(_octets(payload)), _octets(signature), f"{head}.{payload}".encode()
    except ValueError as fault:
        raise TokenError("there is no token, or it cannot be read") from fault


def _octets(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _number(text: str) -> int:
    return int.from_bytes(_octets(text))
