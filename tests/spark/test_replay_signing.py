"""Replays are signed as API Gateway's IAM authorizer wants it."""

from __future__ import annotations

import pytest

from glue_jobs.replay_client import RefusedError, signer

URL = "https://abc.execute-api.eu-west-1.amazonaws.com/topics/t/subscriptions/s/replay"
HEADERS = {"Content-Type": "application/json", "Idempotency-Key": "replay-1-0"}


def test_a_replay_is_signed_for_the_region_and_covers_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    sign = signer("eu-west-1")

    signed = sign(URL, b"{}", HEADERS)

    assert signed["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-west-1/execute-api/aws4_request" in signed["Authorization"]
    assert signed["Idempotency-Key"] == "replay-1-0"
    assert sign(URL, b'{"messages": []}', HEADERS)["Authorization"] != signed["Authorization"]
    assert "secret" not in str(signed)


def test_without_credentials_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(RefusedError, match="no credentials"):
        signer("eu-west-1")
