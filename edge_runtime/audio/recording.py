"""A microphone as another process records it, message by message."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from dataclasses import dataclass

import numpy as np

from edge_runtime.audio import recorder
from edge_runtime.audio.ring import Samples
from edge_runtime.config import Profile
from edge_runtime.errors import MicrophoneError

_READ = 1 << 16
_PATIENCE = 0.5


@dataclass(frozen=True)
class Opened:
    """The microphone records: its name, its index, samples per second."""

    name: str
    index: int
    rate: int


@dataclass(frozen=True)
class Trouble:
    """It cannot be opened, or went away; it is tried again by itself."""

    code: str
    message: str
    fix: str


@dataclass(frozen=True)
class Lost:
    """The system lost audio."""


Message = Opened | Trouble | Lost | Samples


class Recording:
    """The recording process of a profile, from construction to `close`."""

    def __init__(self, profile: Profile) -> None:
        arguments = (profile.device, str(profile.channel), str(profile.rate))
        self._process = subprocess.Popen(
            [sys.executable, "-m", recorder.__name__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        assert self._process.stdout is not None
        self._out = self._process.stdout
        self._bytes = bytearray()

    def read(self, seconds: float) -> list[Message]:
        """What it said, none after so many seconds without; `MicrophoneError` where it ended."""
        if not select.select([self._out], [], [], seconds)[0]:
            return []
        data = os.read(self._out.fileno(), _READ)
        if not data:
            raise MicrophoneError(
                f"the process that records ended ({self._process.wait()})",
                "The system's log may say why; it is started again.",
            )
        self._bytes += data
        return self._whole()

    def close(self) -> None:
        """End the process, by force where it hangs."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _whole(self) -> list[Message]:
        """The messages that have come in full."""
        found: list[Message] = []
        at, header = 0, recorder.HEADER
        while len(self._bytes) >= at + header.size:
            kind, length = header.unpack_from(self._bytes, at)
            if len(self._bytes) < at + header.size + length:
                break
            at += header.size
            found.append(_message(kind, bytes(self._bytes[at : at + length])))
            at += length
        del self._bytes[:at]
        return found


def _message(kind: bytes, content: bytes) -> Message:
    if kind == recorder.AUDIO:
        return np.frombuffer(content, np.float32)
    if kind == recorder.OPENED:
        return Opened(**json.loads(content))
    if kind == recorder.TROUBLE:
        return Trouble(**json.loads(content))
    assert kind == recorder.LOST, kind
    return Lost()
