"""How far the readers of streams are: a file each, which the engine looks into before it lets go of a record."""

from pathlib import Path

from local.engine.checksums import CHANGED, DamageError, framed, unframed


def reached(path: Path) -> str:
    """The number of the last record that a reader has read; empty if none. DamageError if the file was changed."""
    written = path.read_bytes()
    found = unframed(written) if written else (b"", 0)
    if found is None:
        raise DamageError(path, CHANGED.format(len(written)))
    return found[0].decode()


def reach(path: Path, number: str) -> None:
    """Write down how far a reader is."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_bytes(framed(number.encode())[0])
    draft.replace(path)
