"""Runs the probes in a process of their own: one that hangs or crashes costs only itself."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from edge_runtime.doctor.facts import Facts
from edge_runtime.doctor.probes import DEFAULTS, PROBES, Probe

BEGIN = 60.0
"""Seconds that the process may take to begin: a busy board reads Python from a slow card."""

_GONE = 1.0  # seconds in which a killed process is gone, where the kernel lets it go at all


class Answer(msgspec.Struct, frozen=True):
    """A line of the process: facts as plain values, or why not; without both it is ready."""

    facts: Any = None
    failed: str = ""


class _Ended(Exception):
    """The process is of no use any more; says why, as the rest of a sentence."""


class Survey:
    """The probes of one machine; `root` is a recorded one, empty for this."""

    def __init__(self, config: str = "", root: str = "", probes: Sequence[Probe] = PROBES) -> None:
        """The facts of probes that are not among `probes` stay None."""
        self._config = config
        self._root = root
        self._probes = probes

    def run(self, watch: Callable[[Probe], None] = lambda probe: None) -> Facts:
        """All facts; `watch` is told of each probe before it runs."""
        found: dict[str, Any] = {}
        troubles: dict[str, str] = {}
        left = list(self._probes)
        while left:
            with _Process(self._root, self._config, [each.name for each in left]) as process:
                while left:
                    probe = left.pop(0)
                    watch(probe)
                    try:
                        answer = process.answer(probe.seconds)
                    except _Ended as ended:
                        troubles[probe.name] = str(ended)
                        if probe.name == "settings":
                            self._config = DEFAULTS
                        break
                    if answer.failed:
                        troubles[probe.name] = f"failed: {answer.failed}"
                    else:
                        found[probe.name] = msgspec.convert(answer.facts, probe.kind)
        return Facts(**found, troubles=troubles)


class _Process:
    """Runs some probes, one after the other, and answers for each with a line."""

    def __init__(self, root: str, config: str, names: list[str]) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed where the process is
        self._process = subprocess.Popen(
            [sys.executable, "-m", "edge_runtime.doctor", root, config, *names],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,  # so that what it starts can be ended with it
        )
        self._read = b""
        self._began = False

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        # One that waits for a disk that is gone cannot be killed: it is left to itself.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GONE)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._said.close()

    def answer(self, seconds: float) -> Answer:
        """The next one; raises `_Ended` where there is none within `seconds`."""
        if not self._began:
            self._line(BEGIN)
            self._began = True
        return msgspec.json.decode(self._line(seconds), type=Answer)

    def _line(self, seconds: float) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        until = time.monotonic() + seconds
        while b"\n" not in self._read:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise _Ended(f"took longer than {seconds:g} s and was ended")
            came = os.read(descriptor, 1 << 16)
            if not came:
                raise _Ended(self._end())
            self._read += came
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _end(self) -> str:
        """How the process ended, with the last that it said."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GONE)
        code = self._process.returncode or 0
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").strip().splitlines()
        return f"ended the process ({how}){f': {lines[-1][:200]}' if lines else ''}"


def serve(root: str, config: str, names: list[str]) -> None:
    """The other side: run the probes, write an answer for each, and end without any farewell."""
    from edge_runtime.doctor.machine import Machine
    from edge_runtime.doctor.recorded import RecordedMachine

    # Libraries write to standard output what they please: that goes where errors go.
    answers = os.dup(1)
    os.dup2(2, 1)
    machine = RecordedMachine(Path(root)) if root else Machine()
    probes = {each.name: each for each in PROBES}
    os.write(answers, msgspec.json.encode(Answer()) + b"\n")
    for name in names:
        try:
            answer = Answer(facts=probes[name](machine, config))
        except Exception as error:  # noqa: BLE001 - whatever a broken library throws is a fact
            answer = Answer(failed=f"{type(error).__name__}: {error}")
        os.write(answers, msgspec.json.encode(answer) + b"\n")
    os._exit(0)  # CUDA's own clearing up may crash, and there is nothing to keep
