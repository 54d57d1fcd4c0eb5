"""Secrets Manager: the secrets of the template, which the shipped code reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.aws.box import ACCOUNT, REGION, Box, Call, Service
from tests.aws.faults import ApiError

CURRENT = "AWSCURRENT"


@dataclass(frozen=True)
class Secret:
    """One secret, in its one version."""

    name: str
    arn: str
    created_at: datetime
    text: str


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
        now = datetime.fromtimestamp(self.box.timeline.now / 1000, UTC)
        secret = self.secrets[name] = Secret(name, arn, now, text)
        return secret

    def needs(self, call: Call) -> Iterable[tuple[str, str]]:
        known = self._find(call["SecretId"])
        arn = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{call['SecretId']}" if known is None else known.arn
        yield f"secretsmanager:{call.operation}", arn

    def get_secret_value(self, call: Call) -> dict[str, Any]:
        """GetSecretValue, of the current version."""
        secret, stage = self._find(call["SecretId"]), call.parameters.get("VersionStage", CURRENT)
        if secret is None or stage != CURRENT:
            raise ApiError("ResourceNotFoundException", "Secrets Manager can't find the specified secret value.")
        version = {"VersionId": f"made with {secret.name}", "VersionStages": [stage], "SecretString": secret.text}
        return {"ARN": secret.arn, "Name": secret.name, "CreatedDate": secret.created_at, **version}

    def _find(self, named: str) -> Secret | None:
        if named.startswith("arn:"):
            return next(
                (each for each in self.secrets.values() if each.arn in (named, f"{named}{each.arn[-7:]}")), None
            )
        return self.secrets.get(named)
