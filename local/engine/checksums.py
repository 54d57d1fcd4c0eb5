"""Writes and reads files with checksums. The checksums tell damage from a write that a kill has interrupted.

Each reader of a stream stores its position in such a file. The engine keeps a record until all readers have read it.
"""

import re
from pathlib import Path
from zlib import crc32

TORN = re.compile(rb"[0-9a-f]{0,8}|[0-9a-f]{8} [0-9]*|[0-9a-f]{8} ([0-9]+) ([^\0]*)", re.DOTALL)
CHANGED = "its {} bytes do not match its checksum"
REMEDY = "Put back a copy of the whole folder, or start with FRESH=1 (--fresh), which deletes the state"


class DamageError(Exception):
    """A file is damaged. The message names the file, the damage and the remedy."""

    def __init__(self, path: Path, what: str, remedy: str = REMEDY) -> None:
        super().__init__(f"{path} is damaged: {what}. {remedy}")


def frame_line(text: bytes, before: int = 0) -> tuple[bytes, int]:
    """Return *text* as a line with a checksum, and the checksum as a number.

    *before* is the checksum of the previous line, which the new checksum continues; 0 for the first line.

    >>> frame_line(b"{}")
    (b'a3a6bf43 2 {}\\n', 2745614147)
    """
    checksum = crc32(text, before)
    return b"".join(frame_parts(text, checksum)), checksum


def frame_parts(text: bytes, checksum: int) -> tuple[bytes, bytes, bytes]:
    """Return a line as three parts: checksum and length, *text*, and line end. So a large *text* is not copied."""
    return b"%08x %d " % (checksum, len(text)), text, b"\n"


def unframe_line(line: bytes, before: int = 0) -> tuple[bytes, int] | None:
    """Return the text and the checksum of a line. Return None if the line was changed, or if *before* is wrong.

    *before* must be the checksum of the previous line; 0 for the first line.

    >>> unframe_line(frame_line(b"{}")[0]), unframe_line(frame_line(b"{}")[0], 1), unframe_line(b"a3a6bf43 2 []\\n")
    ((b'{}', 2745614147), None, None)
    """
    checksum, _, rest = line.partition(b" ")
    length, _, ended = rest.partition(b" ")
    text = ended[:-1]
    found = crc32(text, before)
    if not ended.endswith(b"\n") or checksum != b"%08x" % found or length != b"%d" % len(text):
        return None
    return text, found


def replace_file(path: Path, *parts: bytes) -> None:
    """Replace the file at *path* by *parts*. A reader sees either the whole old file or the whole new one."""
    draft = path.with_name(f"{path.name}.draft")
    with draft.open("wb") as file:
        file.writelines(parts)
    draft.replace(path)


def is_torn(line: bytes) -> bool:
    """Return whether *line* is an incomplete line, as a kill leaves it when it interrupts a write.

    >>> line = frame_line(b'{"a": 1}')[0]
    >>> all(is_torn(line[:length]) for length in range(len(line))), is_torn(line), is_torn(bytes(8)), is_torn(b"{}")
    (True, False, False, False)
    >>> is_torn(line[:-1] + b"x")
    False
    """
    found = TORN.fullmatch(line)
    return found is not None and (found[1] is None or (len(found[2]) <= int(found[1]) and b"\n" not in found[2]))


def read_position(path: Path) -> str:
    """Return the sequence number of the last record that a reader has read; empty before its first. Raises DamageError.

    The reader stored the number in the file *path*.
    """
    written = path.read_bytes()
    found = unframe_line(written) if written else (b"", 0)
    if found is None:
        raise DamageError(path, CHANGED.format(len(written)))
    return found[0].decode()


def store_position(path: Path, number: str) -> None:
    """Store a reader's position in the file *path*. *number* is the sequence number of the last record that it read."""
    replace_file(path, frame_line(number.encode())[0])
