"""Reads and changes the CMQ endpoint's keys in Secrets Manager, with the administrator's own credentials."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tagcast_cli.api_client import need
from tagcast_cli.job_run import client_of, read_stack

if TYPE_CHECKING:
    from tagcast_aws.cmq.keys import KeyRing

OVERTAKEN = ("InvalidParameterException", "ResourceExistsException")
DRAFT, CURRENT = "TAGCAST_DRAFT", "AWSCURRENT"
"""The labels of secret versions. The service reads only the version ``CURRENT``."""


class KeyStoreError(RuntimeError):
    """Keys cannot be read or changed. The error's text is the reason or the remedy."""


@dataclass(frozen=True)
class KeyStore:
    """Reads and changes the CMQ keys of one stack. They are in Secrets Manager, in the secret *name*."""

    client: Any
    name: str

    @classmethod
    def of_stack(cls, stack: str, own: Any) -> KeyStore:
        """Return the key store of a stack on AWS. *own* is the caller's boto3 session."""
        with _faults_in_words():
            return cls(own.client("secretsmanager"), secret_name(stack))

    @classmethod
    def of_folder(cls, folder: Path) -> KeyStore:
        """Return the key store of the local stack that runs on *folder*. Raises JobError if no stack runs there."""
        need("boto3")  # A missing boto3 is reported even if no stack runs.
        where = read_stack(folder, "a stack on AWS with --stack")
        return cls(client_of(where["owner_environment"], "secretsmanager"), secret_name(where["stack"]))

    def read(self) -> KeyRing:
        """Return the keys, or an empty key ring if no key was ever created."""
        with _faults_in_words():
            return self._read()[0]

    def change(self, change: Callable[[KeyRing], KeyRing]) -> KeyRing:
        """Change the keys, and return the new keys. *change* gets the present keys and returns the new ones.

        Raises KeyStoreError if another administrator changes the keys at the same time. Then the other change stays,
        and this one has no effect.
        """
        with _faults_in_words():
            ring, version = self._read()
            changed = change(ring)
            self._write(changed.as_text(), version)
            return changed

    def _read(self) -> tuple[KeyRing, str | None]:
        from tagcast_aws.cmq.keys import KeyRing

        try:
            found = self.client.get_secret_value(SecretId=self.name, VersionStage=CURRENT)
        except self.client.exceptions.ResourceNotFoundException:
            return KeyRing(), None
        return KeyRing.of(found["SecretString"]), str(found["VersionId"])

    def _write(self, text: str, version: str | None) -> None:
        if version is None:
            self.client.create_secret(Name=self.name, SecretString=text, Description="Keys of the CMQ endpoint")
            return
        draft = self.client.put_secret_value(SecretId=self.name, SecretString=text, VersionStages=[DRAFT])["VersionId"]
        self.client.update_secret_version_stage(
            SecretId=self.name, VersionStage=CURRENT, MoveToVersionId=draft, RemoveFromVersionId=version
        )


@contextmanager
def _faults_in_words() -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        details = error.response["Error"]
        if details["Code"] in OVERTAKEN:
            raise KeyStoreError("another administrator changed the keys at the same time; try again") from None
        raise KeyStoreError(f"{details['Code']}: {details['Message']}") from None
    except BotoCoreError as error:
        raise KeyStoreError(str(error)) from None


def secret_name(stack: str) -> str:
    """Return the name of the secret that holds a stack's CMQ keys, as template.yaml defines it.

    >>> secret_name("tagcast")
    'tagcast/cmq-keys'
    """
    return f"{stack}/cmq-keys"
