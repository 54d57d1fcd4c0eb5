"""A small client of CMQ over real HTTP."""

from __future__ import annotations

import json
import secrets
import time
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from tagcast_aws.cmq.authentication import signature, string_to_sign
from tagcast_aws.cmq.form import Form
from tagcast_aws.cmq.keys import CmqKey


@dataclass
class CmqProgram:
    """A program with a key; it remembers what it was refused."""

    url: str
    key: CmqKey
    path: str = "/v2/index.php"
    refused: list[dict[str, Any]] = field(default_factory=list)

    @property
    def all_served(self) -> bool:
        return not self.refused

    def ask(self, action: str, **parameters: str) -> dict[str, Any]:
        full = {
            "Action": action,
            "SecretId": self.key.secret_id,
            "Nonce": str(secrets.randbelow(2**63)),
            "Timestamp": str(int(time.time())),
            **parameters,
        }
        text = string_to_sign(Form("POST", urlsplit(self.url).netloc, self.path, full, 0))
        form = urlencode({**full, "Signature": signature(text, self.key.secret_key or "", None)})
        with urllib.request.urlopen(f"{self.url}{self.path}", form.encode(), timeout=60) as answered:
            answer: dict[str, Any] = json.loads(answered.read())
        if answer["code"]:
            self.refused.append(answer)
        return answer
