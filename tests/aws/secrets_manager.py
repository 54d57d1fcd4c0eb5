"""Secrets Manager: secrets with their current and their previous version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from local.rules import limits
from tests.aws.box import ACCOUNT, REGION, Box, Call, Service
from tests.aws.faults import ApiError

CURRENT, PREVIOUS = "AWSCURRENT", "AWSPREVIOUS"


@dataclass
class Secret:
    """One secret; *stages* names the versions that a reader may ask for by a word."""

    name: str
    arn: str
    created_at: datetime
    versions: dict[str, dict[str, Any]] = field(default_factory=dict)
    stages: dict[str, str] = field(default_factory=dict)


class SecretsManager(Service):
    """All secrets, by name."""

    name = "secretsmanager"
    failed = ("InternalServiceError", 500)

    def __init__(self, box: Box) -> None:
        super().__init__(box)
        self.secrets: dict[str, Secret] = {}

    def make(self, name: str, text: str) -> Secret:
        """Make a secret as CloudFormation does; its ARN is the one that references to it resolve to."""
        arn = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{name}-a1b2c3"
        secret = self.secrets[name] = Secret(name, arn, self._now())
        self._put(secret, f"made with {name}", {"SecretString": text})
        return secret

    def needs(self, call: Call) -> Iterable[tuple[str, str]]:
        named = call["Name"] if call.operation == "CreateSecret" else call["SecretId"]
        known = self._find(named)
        arn = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{named}" if known is None else known.arn
        yield f"secretsmanager:{call.operation}", arn

    def create_secret(self, call: Call) -> dict[str, Any]:
        """CreateSecret; the same name, token and content again is the same secret."""
        name, token = call["Name"], call["ClientRequestToken"]
        content = _content(call)
        known = self._find(name)
        if known is not None:
            if known.versions.get(token) != content:
                raise ApiError(
                    "ResourceExistsException", f"The operation failed because the secret {name} already exists."
                )
            return {"ARN": known.arn, "Name": name, "VersionId": token}
        arn = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{name}-{self.box.serial():06x}"
        secret = self.secrets[name] = Secret(name, arn, self._now())
        answer = {"ARN": arn, "Name": name}
        if content:
            self._put(secret, token, content)
            answer["VersionId"] = token
        return answer

    def put_secret_value(self, call: Call) -> dict[str, Any]:
        """PutSecretValue: a new version becomes the current one."""
        secret, token = self._usable(call), call["ClientRequestToken"]
        content = _content(call)
        known = secret.versions.get(token)
        if known is not None and known != content:
            raise ApiError(
                "ResourceExistsException", "You can't modify an existing version, you can only create a new one."
            )
        if known is None:
            self._put(secret, token, content)
        return {"ARN": secret.arn, "Name": secret.name, "VersionId": token, "VersionStages": _stages(secret, token)}

    def get_secret_value(self, call: Call) -> dict[str, Any]:
        """GetSecretValue."""
        secret = self._usable(call)
        stage = call.parameters.get("VersionStage", CURRENT)
        version = call.parameters.get("VersionId") or secret.stages.get(stage)
        if version not in secret.versions:
            raise ApiError(
                "ResourceNotFoundException",
                f"Secrets Manager can't find the specified secret value for staging label: {stage}",
            )
        told = {"ARN": secret.arn, "Name": secret.name, "VersionId": version, "CreatedDate": secret.created_at}
        return {**told, **secret.versions[version], "VersionStages": _stages(secret, version)}

    def _find(self, named: str) -> Secret | None:
        if named.startswith("arn:"):
            return next(
                (each for each in self.secrets.values() if each.arn in (named, f"{named}{each.arn[-7:]}")), None
            )
        return self.secrets.get(named)

    def _usable(self, call: Call) -> Secret:
        secret = self._find(call["SecretId"])
        if secret is None:
            raise _absent()
        return secret

    def _put(self, secret: Secret, token: str, content: dict[str, Any]) -> None:
        secret.versions[token] = content
        if CURRENT in secret.stages:
            secret.stages[PREVIOUS] = secret.stages[CURRENT]
        secret.stages[CURRENT] = token

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.box.timeline.now / 1000, UTC)


def _content(call: Call) -> dict[str, Any]:
    content = {name: call[name] for name in ("SecretString", "SecretBinary") if name in call.parameters}
    if len(content) > 1:
        raise ApiError(
            "InvalidParameterException", "You can't specify both a binary secret value and a string secret value."
        )
    for value in content.values():
        if len(value.encode() if isinstance(value, str) else value) > limits.SECRET_BYTES_MAX:
            raise ApiError("ValidationException", "Member must have length less than or equal to 65536")
    return content


def _stages(secret: Secret, version: str) -> list[str]:
    return [stage for stage, named in secret.stages.items() if named == version]


def _absent() -> ApiError:
    return ApiError("ResourceNotFoundException", "Secrets Manager can't find the specified secret.")
