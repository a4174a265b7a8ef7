"""`edge-runtime bench` ends at Ctrl-C, however it was started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def opened(fifo: Path, process: subprocess.Popen[str]) -> int:
    """Its writing end, as soon as `process` reads from it."""
    for _ in range(600):
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads yet
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
    raise AssertionError("the manifest is never read")


@pytest.mark.parametrize("told", ["trap '' INT", ":"])
def test_ctrl_c_ends_it_where_the_shell_said_to_ignore_it(tmp_path: Path, told: str) -> None:
    fifo = tmp_path / "manifest.tsv"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [
            "sh",
            "-c",
            f'{told}; exec "$@"',
            "sh",
            sys.executable,
            "-m",
            "edge_runtime",
            "bench",
            fifo,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        writing = opened(fifo, process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
        os.close(writing)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in err
