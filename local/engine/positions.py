"""Positions of stream readers: a file each, which the engine reads before it drops a record."""

from pathlib import Path

from local.engine.checksums import CHANGED, DamageError, framed, unframed


def reached(path: Path) -> str:
    """Return the sequence number of a reader's last record; empty without one. Raises DamageError."""
    written = path.read_bytes()
    found = unframed(written) if written else (b"", 0)
    if found is None:
        raise DamageError(path, CHANGED.format(len(written)))
    return found[0].decode()


def reach(path: Path, number: str) -> None:
    """Store a reader's position."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_bytes(framed(number.encode())[0])
    draft.replace(path)
