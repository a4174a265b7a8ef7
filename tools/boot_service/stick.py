"""Stop threads of a process, as a driver that does not return would: `stick.py PID lanes|loop`."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000


def main() -> None:
    """Hold every thread but the first, or the first alone, until the process has ended."""
    pid, which = int(sys.argv[1]), sys.argv[2]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes, libc.ptrace.restype = [ctypes.c_long] * 4, ctypes.c_long
    threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
    for thread in threads:
        if (thread == pid) == (which == "loop"):
            for request in (SEIZE, INTERRUPT):
                if libc.ptrace(request, thread, 0, 0):
                    raise OSError(ctypes.get_errno(), f"thread {thread}")
    print("stuck", flush=True)
    while True:  # those that die are to be waited for, or the process could not end
        try:
            os.waitpid(-1, WALL)
        except ChildProcessError:
            return


main()
