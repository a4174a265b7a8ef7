"""Work in a process of its own: what it measured, or why it did not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edge_runtime.errors import DeviceError

TOOL = Path(__file__).resolve().parents[1] / "gpu-bench"
ROOT = TOOL.parents[1]


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours, in which a child finds the package that we run."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **(changes or {})}


def lines(
    command: Sequence[str],
    heard: Callable[[str], None],
    timeout: float,
    changes: Mapping[str, str] | None = None,
) -> None:
    """Run a command to its end, each line of its output given to `heard` as it comes.

    Raises `DeviceError` with the last lines of its log where it fails or takes too long.
    """
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, env=environment(changes),
            start_new_session=True, text=True,
        )  # fmt: skip
        late = False

        def stop(*_: Any) -> None:
            nonlocal late
            late = True
            _end(child)

        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, max(1.0, timeout))
        try:
            assert child.stdout is not None
            with child.stdout as said:
                for line in said:
                    heard(line.rstrip("\n"))
            child.wait()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            _end(child)
        if late or child.returncode:
            why = f"was ended after {timeout:.0f} s" if late else f"ended with {child.returncode}"
            raise DeviceError(f"{' '.join(command[:4])} … {why}: {_tail(log.fileno())}")


def python(*arguments: str) -> list[str]:
    """A command line of this tool."""
    return [sys.executable, str(TOOL), *arguments]


def record(path: Path) -> dict[str, Any]:
    """What a child wrote as JSON; raises `DeviceError` where it wrote nothing."""
    if not path.is_file():
        raise DeviceError("the process measured nothing", "Look at what it printed.")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _end(child: subprocess.Popen[str]) -> None:
    """It and its own children: those of a compiler hold its output open."""
    if child.poll() is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        child.wait()


def _tail(log: int) -> str:
    size = os.fstat(log).st_size
    return os.pread(log, 1500, max(0, size - 1500)).decode(errors="replace").strip()
