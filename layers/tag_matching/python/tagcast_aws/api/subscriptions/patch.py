"""Changes of a subscription that name what changes, as merge patches (RFC 7396), with the validation of a PUT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints
from tagcast.errors import InvalidRequestError
from tagcast.model import Subscription, SubscriptionSettings
from tagcast.operating.verification import change_verified
from tagcast.ports import World
from tagcast.sealing.secrets import KEPT, open_secrets

from tagcast_aws.api import limits
from tagcast_aws.api.http.body import Body, members_at_most, read
from tagcast_aws.api.http.merge_patch import merged
from tagcast_aws.api.subscriptions.client_certificate import ClientCertificateBody, certified
from tagcast_aws.api.subscriptions.headers import HeaderName, HeaderValue
from tagcast_aws.api.subscriptions.retry import present_for
from tagcast_aws.api.subscriptions.secret import Secret, made
from tagcast_aws.api.subscriptions.settings import Format, SubscriptionBody, shown
from tagcast_aws.api.subscriptions.start_from import StartFrom

_KEPT = ClientCertificateBody(certificate="", private_key="")
"""Stands for the present certificate while the whole is judged: of its key only what pushes need is kept."""

MEMBERS_MAX = 20
"""More than any object of a subscription has, and what goes for what comes."""
_Object = Annotated[dict[str, Any], Field(max_length=MEMBERS_MAX), members_at_most(MEMBERS_MAX, "members")]
_Headers = Annotated[
    dict[HeaderName, HeaderValue | None],
    Field(max_length=limits.PUSH_HEADERS_MAX, json_schema_extra={"writeOnly": True, "format": "push-headers"}),
    members_at_most(limits.PUSH_HEADERS_MAX, "headers"),
]


class SubscriptionPatch(Body):
    """A merge patch (RFC 7396) of a subscription: what is left out stays, null removes, objects are merged.

    What results has to be what a PUT takes. Secrets, headers and certificate stay unless they are named.
    """

    model_config = ConfigDict(json_schema_extra={"format": "merge-patch"})

    endpoint: _Object | None = None
    filter: _Object | None = None
    retry: _Object | None = None
    timeout_seconds: int | None = None
    content_format: Format | None = None
    secret: Secret | None = None
    headers: _Headers | None = None
    client_certificate: ClientCertificateBody | None = None
    signature: Literal["v1", "v1a"] | None = None
    ordered: bool | None = None
    dead_letter_topic: Annotated[str, StringConstraints(pattern=limits.NAME)] | None = None
    dead_letter_expired: bool | None = None
    start_from: StartFrom | None = None
    max_per_second: float | None = None
    batch: _Object | None = None
    verification: Literal["none", "required"] | None = None

    def named(self) -> dict[str, Any]:
        """Return what the patch names, as JSON; names of headers in lower case, as they are kept."""
        found = {name: getattr(self, name) for name in self.model_fields_set}
        if isinstance(headers := found.get("headers"), dict):
            found["headers"] = {name.lower(): value for name, value in headers.items()}
        if isinstance(certificate := found.get("client_certificate"), Body):
            found["client_certificate"] = certificate.model_dump()
        return found


def change(
    world: World, topic: str, name: str, patch: SubscriptionPatch, if_match: int | None
) -> tuple[Subscription, str | None]:
    """Change what *patch* names; return the subscription, and its secret if that was made now.

    Raises as a PUT does.
    """
    named = patch.named()
    secret, untold = made(world, named.get("secret"))
    if secret is not None:
        named["secret"] = secret

    def changed(known: Subscription) -> SubscriptionSettings:
        return _changed(world, known, named)

    return change_verified(world, topic, name, changed, if_match, wanted=patch.verification), untold


def _changed(world: World, known: Subscription, named: Mapping[str, Any]) -> SubscriptionSettings:
    """Return the settings of *known* with what is *named*; InvalidRequestError if a PUT of them would be refused."""
    present = as_put(known) if known.settings.is_group else present_for(as_put(known), named)
    opens = _needs_secrets(present, named)
    kept = open_secrets(world, known).settings if opens else known.settings
    if opens and not kept.is_group:
        present |= _hidden(kept)
    wanted = merged(present, named)
    body, faults = read(SubscriptionBody, wanted)
    if body is None:
        raise InvalidRequestError(tuple(faults))
    if body.client_certificate == _KEPT:
        chosen = replace(body.settings(), client_certificate=kept.client_certificate, client_key=kept.client_key)
    else:
        chosen = certified(body.settings(), body.client_certificate)
    if opens:
        return chosen if "secret" in named else replace(chosen, formers=kept.formers)
    return replace(
        chosen,
        secret=kept.secret,
        headers=kept.headers,
        client_certificate=kept.client_certificate,
        client_key=kept.client_key,
        formers=kept.formers,
        sealed=kept.sealed,
    )


def as_put(known: Subscription) -> dict[str, Any]:
    """Return a subscription as a PUT of it would be written, without what nobody is shown."""
    answer = shown(known, ())
    fields = {name: value for name, value in answer.items() if name in SubscriptionBody.model_fields}
    fields.pop("client_certificate", None)
    if known.settings.is_group:
        del fields["timeout_seconds"], fields["content_format"]
    return fields


def _hidden(settings: SubscriptionSettings) -> dict[str, Any]:
    found: dict[str, Any] = {} if settings.secret is None else {"secret": settings.secret}
    if settings.headers:
        found["headers"] = dict(settings.headers)
    if settings.client_key is not None:
        found["client_certificate"] = _KEPT.model_dump()
    return found


def _needs_secrets(present: Mapping[str, Any], named: Mapping[str, Any]) -> bool:
    """Say whether secrets have to be opened: one is named, or pushes go another way, which may forbid some."""
    endpoint = named.get("endpoint") or {}
    is_elsewhere = "protocol" in endpoint and endpoint["protocol"] != present["endpoint"]["protocol"]
    return is_elsewhere or not KEPT.isdisjoint(named)
