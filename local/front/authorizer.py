"""Checks tokens and the scopes of routes, as API Gateway documents its JWT authorizer."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from local.front.http_event import problem
from local.functions.plain_server import Response
from local.template.intrinsics import Resolver
from local.template.translated import API

if TYPE_CHECKING:
    from jwt import PyJWK
    from jwt.types import Options

JWT = "JWT"
"""The name of the authorizer in the template."""

FETCH_S = 5.0
ALGORITHMS = ("RS256", "RS384", "RS512")
"""API Gateway accepts RSA only."""
INSTANTS = ("exp", "nbf", "iat")
READ: Options = {"require": ["exp"], "verify_aud": False, "verify_sub": False, "verify_jti": False}
"""Options of token parsing: API Gateway has its own audience rule, and no rule for subjects and ids."""

Keys = Mapping[str, "PyJWK"]
"""The issuer's RSA keys by id."""


class TokenError(ValueError):
    """The token is invalid, expired, or from another issuer. The message is the reason, without the token."""


@dataclass(frozen=True)
class AuthorizerSettings:
    """The issuer and the audiences of valid tokens, and the scopes of each route. A route is a pair of method and path.

    A token needs one of the scopes of the route. A route without scopes is open and needs no token.
    """

    issuer: str
    audiences: tuple[str, ...]
    scopes: Mapping[tuple[str, str], tuple[str, ...]]


def read_authorizer(resolver: Resolver) -> AuthorizerSettings | None:
    """Return the settings of the JWT authorizer in the template; None if the API has IAM authorization."""
    _, api = next(resolver.template.of_type(API))
    schemes = resolver.value(api["Body"]["components"]["securitySchemes"])
    if JWT not in schemes:
        return None
    configuration = schemes[JWT]["x-amazon-apigateway-authorizer"]["jwtConfiguration"]
    scopes = {
        (route.method, route.path): tuple(scope for needed in resolver.value(route.security) for scope in needed[JWT])
        for route in resolver.template.routes()
    }
    return AuthorizerSettings(configuration["issuer"], tuple(configuration["audience"]), scopes)


@dataclass
class JwtAuthorizer:
    """Authorizes requests by *settings*. If a token names an unknown key, the issuer's keys are fetched."""

    settings: AuthorizerSettings
    _keys: Keys = field(default_factory=dict)

    async def authorize(self, method: str, path: str, authorization: str | None) -> Mapping[str, Any] | Response:
        """Return the event's description of the caller, or an error response if the caller is refused.

        *path* is the path of a route. *authorization* is the header. For an open route, the description is empty.
        """
        needed = self.settings.scopes[method, path]
        if not needed:
            return {}
        try:
            claims = await self._claims((authorization or "").removeprefix("Bearer ").strip())
        except TokenError as fault:
            return problem(401, "Unauthorized", str(fault))
        own = claims.get("scope", claims.get("scp", ""))
        scopes = list(map(str, own)) if isinstance(own, list) else str(own).split()
        if not set(needed) & set(scopes):
            return problem(403, "Forbidden", f"the token has none of the scopes {', '.join(needed)}")
        return {"jwt": {"claims": {name: as_text(value) for name, value in claims.items()}, "scopes": scopes}}

    async def _claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a token from the issuer for one of the audiences. Raises TokenError for other tokens."""
        import jwt  # Loading it takes a while, and most stacks use no tokens.

        try:
            key_id = str(jwt.get_unverified_header(token).get("kid"))
            if key_id not in self._keys:
                self._keys = await asyncio.to_thread(fetch_keys, self.settings.issuer)
            if key_id not in self._keys:
                raise TokenError("the token is not signed by a key of its issuer")
            key = self._keys[key_id].key
            claims = jwt.decode(token, key, ALGORITHMS, issuer=self.settings.issuer, options=READ)
        except (jwt.PyJWTError, RecursionError) as fault:
            raise TokenError(f"the token is not valid ({type(fault).__name__}): {fault}") from fault
        self._check(claims)
        return dict(claims)

    def _check(self, claims: Mapping[str, Any]) -> None:
        """Raise TokenError for another audience, or a time claim that is not a number: the library accepts text."""
        named = claims.get("aud", claims.get("client_id"))
        if not any(each in self.settings.audiences for each in (named if isinstance(named, list) else [named])):
            raise TokenError("the token is for another audience")
        for name in INSTANTS:
            if type(claims.get(name, 0)) not in (int, float):
                raise TokenError(f"the token's claim {name} is not a number")


def as_text(value: Any) -> str:
    """Return the value of a token's claim as the event of API Gateway has it. A list has no quotes and no commas.

    >>> as_text(["orders", "bills-*"]), as_text(7), as_text(True)
    ('[orders bills-*]', '7', 'true')
    """
    if isinstance(value, list):
        return f"[{' '.join(map(as_text, value))}]"
    return value if isinstance(value, str) else json.dumps(value)


def fetch_keys(issuer: str) -> Keys:
    """Return an issuer's keys by id, found by OpenID Connect Discovery. Raises TokenError."""
    from jwt import PyJWKSet, PyJWTError

    try:
        described = _fetch_json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        listed = PyJWKSet.from_dict(_fetch_json(described["jwks_uri"]))
        return {str(key.key_id): key for key in listed if key.key_type == "RSA"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, PyJWTError) as fault:
        raise TokenError(f"the keys of the issuer cannot be read ({type(fault).__name__})") from fault


def _fetch_json(url: str) -> Any:
    if not url.startswith(("https://", "http://127.0.0.1")):
        raise TokenError("the URL of an issuer must begin with https://")
    with urllib.request.urlopen(url, timeout=FETCH_S) as answer:
        return json.loads(answer.read())
