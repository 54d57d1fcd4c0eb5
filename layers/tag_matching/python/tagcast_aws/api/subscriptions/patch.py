"""Updates of a subscription by merge patches (RFC 7396). The result is validated like a PUT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from pydantic import ConfigDict
from tagcast.errors import InvalidRequestError
from tagcast.model import Endpoint, Protocol, Subscription, SubscriptionSettings
from tagcast.operating.verification import change_verified
from tagcast.ports import World
from tagcast.rows.host import host_of
from tagcast.sealing import KEPT, check_host, open_secrets

from tagcast_aws.api.http.body import Body, read
from tagcast_aws.api.http.declared import apply_patch, patch_base
from tagcast_aws.api.subscriptions.client_certificate import ClientCertificateBody, add_certificate
from tagcast_aws.api.subscriptions.endpoint import point_to_target
from tagcast_aws.api.subscriptions.retry import present_for
from tagcast_aws.api.subscriptions.secret import make_secret
from tagcast_aws.api.subscriptions.settings import OF_GROUPS, OF_PUSHES, WIRES, SubscriptionBody, show_subscription

_KEPT = ClientCertificateBody(certificate=uuid4().hex, private_key="")
"""A placeholder, which no caller can send, for the present certificate: its private key is not available here."""

if TYPE_CHECKING:
    _Changes = Body
else:
    _Changes = patch_base(SubscriptionSettings, WIRES)


class SubscriptionPatch(_Changes):
    """A merge patch (RFC 7396) of a subscription: unnamed settings stay, null removes, objects are merged.

    The result must be a valid PUT. Secrets, headers and certificate stay unless you name them. If the endpoint gets
    another host, name every header.
    """

    model_config = ConfigDict(json_schema_extra={"format": "merge-patch"})

    verification: Literal["none", "required"] | None = None

    def named_settings(self) -> dict[str, Any]:
        """Return the settings that the patch names, as JSON. Header names are in lower case, as they are stored.

        If two names differ only in case, all names keep their case. The check of the result then refuses them.
        """
        found = self.named_fields()
        if isinstance(headers := found.get("headers"), dict):
            lowered = {name.lower(): value for name, value in headers.items()}
            found["headers"] = lowered if len(lowered) == len(headers) else headers
        if "ordered" in found and "strategy" not in (found.get("retry") or {}):
            found["ordered"] = found["ordered"] or False
        if isinstance(certificate := found.get("client_certificate"), Body):
            found["client_certificate"] = certificate.model_dump()
        return found


def change(
    world: World, topic: str, name: str, patch: SubscriptionPatch, if_match: int | None
) -> tuple[Subscription, str | None]:
    """Update the settings that *patch* names. Return the subscription, and its secret if a secret was generated.

    If *if_match* is not None, the subscription must have this version. Raises the errors of a PUT.
    """
    named = patch.named_settings()
    secret, generated_secret = make_secret(world, named.get("secret"))
    if secret is not None:
        named["secret"] = secret

    endpoints = list[Endpoint]()

    def update_settings(known: Subscription) -> SubscriptionSettings:
        endpoints.append(known.settings.endpoint)
        settings = _settings_after(world, known, named)
        endpoints.append(settings.endpoint)
        return settings

    try:
        changed = change_verified(world, topic, name, update_settings, if_match, verification=patch.verification)
    except InvalidRequestError as error:
        raise InvalidRequestError(tuple(point_to_target(fault, endpoints[-1]) for fault in error.faults)) from None
    return changed, generated_secret


def _settings_after(world: World, known: Subscription, named: Mapping[str, Any]) -> SubscriptionSettings:
    """Return the settings of *known*, updated by *named*.

    Raises InvalidRequestError if the result is not a valid PUT.
    """
    protocol = (named.get("endpoint") or {}).get("protocol", known.settings.endpoint.protocol)
    present = present_for(_as_put(known, protocol), named, is_group=protocol == Protocol.PULL)
    opens = _needs_secrets(present, named)
    kept = open_secrets(world, known).settings if opens else known.settings
    if opens and not kept.is_group and protocol != Protocol.PULL:
        present |= _secrets_of(kept)
    wanted = apply_patch(present, named)
    if wanted.get("headers") == {}:  # The patch removed the last header.
        del wanted["headers"]
    body, faults = read(SubscriptionBody, wanted)
    if body is None:
        raise InvalidRequestError(tuple(faults))
    if body.client_certificate == _KEPT:
        chosen = replace(body.settings(), client_certificate=kept.client_certificate, client_key=kept.client_key)
    else:
        chosen = add_certificate(body.settings(), body.client_certificate)
    _check_kept_headers(world, known, chosen, named)
    if opens:
        return chosen
    return replace(
        chosen,
        secret=kept.secret,
        headers=kept.headers,
        client_certificate=kept.client_certificate,
        client_key=kept.client_key,
        formers=kept.formers,
        sealed=kept.sealed,
    )


def _check_kept_headers(
    world: World, known: Subscription, chosen: SubscriptionSettings, named: Mapping[str, Any]
) -> None:
    """Raise InvalidRequestError if the endpoint gets another host, and headers stay that the patch does not name."""
    before, replaced = known.settings.endpoint, named.get("headers", {})
    if chosen.is_group or replaced is None or host_of(before) == host_of(chosen.endpoint):
        return
    headers = open_secrets(world, known).settings.headers or {}
    check_host(headers.keys() - replaced.keys(), before, chosen.endpoint)


def _as_put(known: Subscription, protocol: object) -> dict[str, Any]:
    """Return a subscription as the body of a PUT with *protocol*, without write-only settings."""
    fields = SubscriptionBody.model_fields.keys() - {"client_certificate"}
    fields -= (OF_PUSHES if protocol == Protocol.PULL else OF_GROUPS).keys()
    return {name: value for name, value in show_subscription(known, ()).items() if name in fields}


def _secrets_of(settings: SubscriptionSettings) -> dict[str, Any]:
    found: dict[str, Any] = {} if settings.secret is None else {"secret": settings.secret}
    if settings.headers:
        found["headers"] = dict(settings.headers)
    if settings.client_key is not None:
        found["client_certificate"] = _KEPT.model_dump()
    return found


def _needs_secrets(present: Mapping[str, Any], named: Mapping[str, Any]) -> bool:
    """Return whether secrets must be decrypted: the patch names a secret, or its new protocol may forbid secrets."""
    endpoint = named.get("endpoint") or {}
    is_elsewhere = "protocol" in endpoint and endpoint["protocol"] != present["endpoint"]["protocol"]
    return is_elsewhere or not KEPT.isdisjoint(named)
