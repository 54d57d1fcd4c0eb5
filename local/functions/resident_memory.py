"""The resident memory of a process."""

import contextlib
import os

STATM_BYTES_MAX = 256


class ResidentMemory:
    """Reads the memory of one process before every event, from a file opened once.

    >>> ResidentMemory(os.getpid()).bytes >= 0, ResidentMemory(0).bytes
    (True, 0)
    """

    def __init__(self, pid: int) -> None:
        self._told = -1
        with contextlib.suppress(OSError):
            self._told = os.open(f"/proc/{pid}/statm", os.O_RDONLY)

    @property
    def bytes(self) -> int:
        """The current bytes; 0 if unavailable (it is available on Linux) or the process is gone."""
        try:
            return int(os.pread(self._told, STATM_BYTES_MAX, 0).split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0

    def close(self) -> None:
        """Close the file."""
        if self._told >= 0:
            os.close(self._told)
            self._told = -1
