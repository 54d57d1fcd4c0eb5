"""`tagcast cmq-key …`: on AWS with the administrator's own credentials, here with those of the local stack."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from tagcast_aws.cmq.keys import KeyRing

from tests.unit.cli.conftest import Run

STACK = ("--stack", "mine")


@pytest.fixture
def secrets() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("secretsmanager", region_name="us-east-1")


def kept(secrets: Any) -> KeyRing:
    return KeyRing.of(secrets.get_secret_value(SecretId="mine/cmq-keys", VersionStage="AWSCURRENT")["SecretString"])


def create(run: Run, *options: str) -> dict[str, Any]:
    ran = run("--json", "cmq-key", "create", *options, *STACK)
    assert ran.exit_code == 0, ran.output
    made: dict[str, Any] = json.loads(ran.stdout)
    return made


def test_no_secret_is_paid_for_before_there_is_a_key(run: Run, secrets: Any) -> None:
    listed = run("cmq-key", "list", *STACK)

    assert (listed.exit_code, listed.stdout) == (0, "No keys yet. Create one: tagcast cmq-key create\n")
    assert secrets.list_secrets()["SecretList"] == []


def test_all_keys_lie_in_one_secret_of_the_stack(run: Run, secrets: Any) -> None:
    first, second = create(run, "--note", "billing"), create(run, "--unsigned-at")

    ring = kept(secrets)
    assert [(key.secret_id, key.secret_key, key.note, key.signs_all) for key in ring.keys] == [
        (first["secret_id"], first["secret_key"], "billing", True),
        (second["secret_id"], second["secret_key"], "", False),
    ]
    assert [each["Name"] for each in secrets.list_secrets()["SecretList"]] == ["mine/cmq-keys"]


def test_a_key_is_stored_in_the_region_of_the_other_commands(
    run: Run, secrets: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    create(run)
    assert len(boto3.client("secretsmanager", region_name="eu-west-1").list_secrets()["SecretList"]) == 1
    assert secrets.list_secrets()["SecretList"] == []


def test_a_note_that_would_crowd_out_other_keys_is_refused(run: Run, secrets: Any) -> None:
    assert run("cmq-key", "create", "--note", "é" * 33, *STACK).exit_code == 2
    assert create(run, "--note", "é" * 32)["note"] == "é" * 32
    assert kept(secrets).keys[0].note == "é" * 32


def test_a_key_may_be_for_some_topics_alone(run: Run, secrets: Any) -> None:
    limited, whole = create(run, "--topic", "orders", "--topic", "bills-*"), create(run)
    listed = run("cmq-key", "list", *STACK)

    assert (limited["topics"], whole["topics"]) == (["orders", "bills-*"], ["*"])
    assert [key.topics for key in kept(secrets).keys] == [("orders", "bills-*"), ("*",)]
    assert "orders bills-*" in listed.stdout
    for odd in (["a b"], ["x" * 65], ["a,*"], [""], ["a", "b", "c", "d"]):
        refused = run("cmq-key", "create", *(word for each in odd for word in ("--topic", each)), *STACK)
        assert refused.exit_code == 2, odd
    assert len(kept(secrets).keys) == 2


def test_a_secret_part_is_shown_once_and_a_revoked_key_is_marked(run: Run, secrets: Any) -> None:
    made = create(run, "--note", "billing")

    revoked = run("cmq-key", "revoke", made["secret_id"], *STACK)
    again = run("--json", "cmq-key", "revoke", made["secret_id"], *STACK)
    listed = run("cmq-key", "list", *STACK)

    assert revoked.exit_code == listed.exit_code == 0
    assert made["secret_key"] not in revoked.stdout + again.stdout + listed.stdout
    assert made["secret_id"] in listed.stdout
    [key] = kept(secrets).keys
    assert (key.secret_key, key.revoked_at is None) == (None, False)
    assert json.loads(again.stdout)["revoked_at"] is not None


def test_a_key_that_is_not_there_cannot_be_revoked(run: Run, secrets: Any) -> None:
    refused = run("cmq-key", "revoke", "AKIDother", *STACK)

    assert refused.exit_code == 1
    assert "key AKIDother does not exist" in refused.stderr


def test_without_a_running_stack_the_ways_out_are_named(run: Run, tmp_path: Path) -> None:
    refused = run("cmq-key", "list", "--data", str(tmp_path))

    assert refused.exit_code == 1
    assert "--stack" in refused.stderr


def test_what_aws_refuses_is_said_in_its_words(run: Run, secrets: Any) -> None:
    create(run)
    secrets.delete_secret(SecretId="mine/cmq-keys")

    refused = run("cmq-key", "create", *STACK)

    assert refused.exit_code == 1
    assert "InvalidRequestException" in refused.stderr
