"""Sends the engine's last error through a pipe, because a full disk may prevent an entry in the log."""

import contextlib
import errno
import os
import shutil
from pathlib import Path
from typing import NoReturn

PIPE = "TAGCAST_LAST_ERROR"
"""The environment variable with the write end of the pipe."""
ERROR_BYTES_MAX = 4096
MIB = 1024 * 1024


def end_process(sentence: str) -> NoReturn:
    """Report *sentence* as an error to the parent process, and end this process at once."""
    line = f"{sentence}\n".encode()[:ERROR_BYTES_MAX]
    for end_of_pipe in (int(os.environ.get(PIPE, -1)), 2):
        with contextlib.suppress(OSError):
            os.write(end_of_pipe, line)
    os._exit(1)


def keep_from_children() -> None:
    """Prevent child processes from inheriting the pipe. So the pipe closes when this process ends."""
    if PIPE in os.environ:
        os.set_inheritable(int(os.environ[PIPE]), False)


def read_last_error(pipe: int) -> str:
    """Return the error that the ended engine wrote to *pipe*; an empty text if it wrote none."""
    with contextlib.suppress(OSError):
        return os.read(pipe, ERROR_BYTES_MAX).decode(errors="replace").strip()
    return ""


def why_not_written(fault: OSError, folder: Path) -> str | None:
    """Return why *folder* or a file in it cannot be written, and what to do. Return None if *fault* has another cause.

    >>> why_not_written(OSError(errno.EROFS, ""), Path("/"))
    'the disk at / is read-only, and / lies on it: choose another folder with --data'
    >>> why_not_written(ConnectionRefusedError(errno.ECONNREFUSED, ""), Path("/")) is None
    True
    """
    if fault.errno == errno.ENAMETOOLONG:
        return f"the path {fault.filename or folder} is too long: choose a shorter one with --data"
    disk = f"the disk at {disk_of(folder)}"
    match fault.errno:
        case errno.ENOSPC | errno.EDQUOT:
            where = (
                f"{disk} is full ({shutil.disk_usage(disk_of(folder)).free // MIB} MiB free), and {folder} lies on it"
            )
            return f"{where}: free some space, or choose another folder with --data"
        case errno.EROFS:
            return f"{disk} is read-only, and {folder} lies on it: choose another folder with --data"
        case errno.EACCES | errno.EPERM:
            where = str(fault.filename or folder)
            return f"this user may not write {where}: change its owner or mode, or choose another folder with --data"
        case errno.ENOENT if fault.filename and Path(fault.filename).absolute().is_relative_to(folder.absolute()):
            return f"{fault.filename} cannot be made: choose another folder with --data"
        case errno.ENOTDIR | errno.EEXIST:
            return f"{fault.filename or folder} is not a folder, or is not in a folder: choose another with --data"
        case errno.EFBIG:
            return f"a file in {folder} may not become larger (ulimit -f): raise the limit"
        case errno.EIO:
            return f"{disk} cannot be written (input/output error), and {folder} lies on it: look at the system's log"
    return None


def disk_of(folder: Path) -> Path:
    """Return the mount point of the disk on which *folder* is, or would be created.

    >>> disk_of(Path("/nowhere/at/all"))
    PosixPath('/')
    """
    place = folder.absolute()
    return next(each for each in (place, *place.parents) if each.is_mount())
