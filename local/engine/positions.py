"""Positions of stream readers, each in a file. The engine reads these files before it drops a record."""

from pathlib import Path

from local.engine.checksums import CHANGED, DamageError, frame_line, replace_file, unframe_line


def read_position(path: Path) -> str:
    """Return the sequence number of a reader's last record; empty if it has read none. Raises DamageError."""
    written = path.read_bytes()
    found = unframe_line(written) if written else (b"", 0)
    if found is None:
        raise DamageError(path, CHANGED.format(len(written)))
    return found[0].decode()


def store_position(path: Path, number: str) -> None:
    """Store a reader's position."""
    replace_file(path, frame_line(number.encode())[0])
