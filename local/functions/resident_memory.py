"""What a process holds in memory."""

import contextlib
import os

STATM_BYTES_MAX = 256


class ResidentMemory:
    """The memory of one process: looked at before every event, in a file that is opened once.

    >>> ResidentMemory(os.getpid()).bytes >= 0, ResidentMemory(0).bytes
    (True, 0)
    """

    def __init__(self, pid: int) -> None:
        self._told = -1
        with contextlib.suppress(OSError):
            self._told = os.open(f"/proc/{pid}/statm", os.O_RDONLY)

    @property
    def bytes(self) -> int:
        """The bytes by now; 0 where the system does not say (it does on Linux) or the process is gone."""
        try:
            return int(os.pread(self._told, STATM_BYTES_MAX, 0).split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0

    def close(self) -> None:
        """Look no more."""
        if self._told >= 0:
            os.close(self._told)
            self._told = -1
