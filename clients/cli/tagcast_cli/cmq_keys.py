"""`tagcast cmq-key …`: the access keys of the CMQ endpoint."""

from __future__ import annotations

import secrets
import string
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from tagcast_client.operation import Json

from tagcast_cli.cmq_key_store import KeyStore, KeyStoreError
from tagcast_cli.doctor import own_session
from tagcast_cli.instant import rfc3339
from tagcast_cli.jobs import DEFAULT_DATA, DataFolder
from tagcast_cli.screen import Column, fields_table, items_table
from tagcast_cli.session import session_of
from tagcast_cli.visible import visible

if TYPE_CHECKING:
    from tagcast_aws.cmq.keys import CmqKey, KeyRing

cmq_keys = typer.Typer(
    no_args_is_help=True,
    help="Create, list and revoke keys of the CMQ endpoint, which a deployment with CmqEndpoint=true opens. "
    "Uses your own AWS credentials, not the API.",
)

StackName = Annotated[
    str | None, typer.Option("--stack", help="Stack on AWS; default: the local stack of --data.", metavar="NAME")
]
ID_LENGTH, KEY_LENGTH = 32, 32
EVERY_TOPIC = "*"
COLUMNS: Mapping[str, Column] = {
    "secret id": "secret_id",
    "note": "note",
    "topics": lambda key: " ".join(key["topics"]),
    "unsigned @": "unsigned_at",
    "created": "created_at",
    "revoked": "revoked_at",
}
_LETTERS = string.ascii_letters + string.digits


def create_key(note: str, unsigned_at: bool, topics: Sequence[str] = (EVERY_TOPIC,)) -> CmqKey:
    """Return a new key for *topics*: names, or patterns with * and ?. The *note* names its user in lists.

    With *unsigned_at*, the signatures of requests may leave out values that begin with an at sign.
    """
    from tagcast_aws.cmq.keys import SECRET_ID_PREFIX, CmqKey

    return CmqKey(
        secret_id=SECRET_ID_PREFIX + _chance(ID_LENGTH),
        secret_key=_chance(KEY_LENGTH),
        created_at=_now(),
        note=note,
        signs_all=not unsigned_at,
        topics=tuple(topics),
    )


def _chance(length: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(length))


def _now() -> int:
    return round(time.time() * 1000)


def _patterns(given: list[str]) -> list[str]:
    if given == [EVERY_TOPIC]:
        return given
    from tagcast_aws.api.http.authorization import is_pattern
    from tagcast_aws.cmq.keys import KEY_TOPIC_LENGTH_MAX, KEY_TOPICS_MAX

    if len(given) > KEY_TOPICS_MAX:
        raise typer.BadParameter(f"a key can have at most {KEY_TOPICS_MAX} topics")
    for each in given:
        if len(each) > KEY_TOPIC_LENGTH_MAX or not is_pattern(each):
            raise typer.BadParameter(f"{visible(each)} is not a topic name or pattern, e.g. orders-*")
    return given


def _note(given: str) -> str:
    from tagcast_aws.cmq.keys import NOTE_BYTES_MAX, note_size

    if note_size(given) > NOTE_BYTES_MAX:
        raise typer.BadParameter(f"a note can have at most {NOTE_BYTES_MAX} bytes")
    return given


@cmq_keys.command("create")
def create(
    ctx: typer.Context,
    note: Annotated[str, typer.Option(help="Note about the user of the key; shown in lists.", callback=_note)] = "",
    unsigned_at: Annotated[
        bool,
        typer.Option(
            "--unsigned-at",
            help="Accept unsigned values that begin with @; CMQ clients in Python, PHP and Node send them.",
        ),
    ] = False,
    topics: Annotated[
        list[str],
        typer.Option(
            "--topic",
            help="Topics of the key: up to three names or patterns with * and ?; default: all.",
            metavar="PATTERN",
            callback=_patterns,
        ),
    ] = [EVERY_TOPIC],  # noqa: B006
    data: DataFolder = DEFAULT_DATA,
    stack: StackName = None,
) -> None:
    """Create a key. Its secret part is shown once."""
    from tagcast_aws.cmq.keys import KEYS_MAX

    key = create_key(note, unsigned_at, topics)

    def add(ring: KeyRing) -> KeyRing:
        if ring.is_full:
            raise KeyStoreError(f"at most {KEYS_MAX} keys are allowed: revoke one first")
        return ring.with_key(key)

    _store(ctx, data, stack).change(add)
    _show(ctx, {"secret_id": key.secret_id, "secret_key": key.secret_key, **_key_fields(key)})


@cmq_keys.command("list")
def list_keys(ctx: typer.Context, data: DataFolder = DEFAULT_DATA, stack: StackName = None) -> None:
    """List the keys, without their secret parts."""
    keys = [{"secret_id": key.secret_id, **_key_fields(key)} for key in _store(ctx, data, stack).read().keys]
    none = "No keys yet. Create one: tagcast cmq-key create"
    _show(ctx, {"keys": keys}, items_table(keys, COLUMNS) if keys else none)


@cmq_keys.command("revoke")
def revoke(
    ctx: typer.Context,
    secret_id: Annotated[str, typer.Argument(help="Id of the key; it begins with AKID.")],
    data: DataFolder = DEFAULT_DATA,
    stack: StackName = None,
) -> None:
    """Revoke a key. Within a minute the service refuses requests that are signed with it.

    In Secrets Manager, the current version of the secret loses the key's secret part. The previous version keeps this
    part until the next key is created or revoked.
    """

    def revoke_key(ring: KeyRing) -> KeyRing:
        key = ring.find(secret_id)
        if key is None:
            raise KeyStoreError(f"key {secret_id} does not exist")
        return ring if key.revoked_at is not None else ring.with_revoked(secret_id, _now())

    changed = _store(ctx, data, stack).change(revoke_key)
    [key] = [each for each in changed.keys if each.secret_id == secret_id]
    _show(ctx, {"secret_id": secret_id, **_key_fields(key)})


def _store(ctx: typer.Context, data: Path, stack: str | None) -> KeyStore:
    if stack is None:
        return KeyStore.of_folder(data)
    try:
        own = own_session(session_of(ctx))
    except typer.BadParameter as fault:
        raise KeyStoreError(fault.message) from None
    return KeyStore.of_stack(stack, own)


def _key_fields(key: CmqKey) -> Json:
    return {
        "note": key.note,
        "topics": list(key.topics),
        "unsigned_at": not key.signs_all,
        "created_at": rfc3339(key.created_at),
        "revoked_at": None if key.revoked_at is None else rfc3339(key.revoked_at),
    }


def _show(ctx: typer.Context, fields: Json, shown: RenderableType | None = None) -> None:
    session = session_of(ctx)
    if session.as_json:
        session.print_json(fields)
    else:
        session.out.print(shown or fields_table(fields))
