"""A process that records one microphone, and opens it again whenever it was gone.

PortAudio knows the devices that were there when it was started, and may hang in a call on one that
was unplugged. So it gets a process of its own, which can be ended without harm to anything else.
Standard output carries messages: a byte that names the kind, the length (4 bytes, little-endian),
and the content. The process ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import threading
import time
from typing import Any, BinaryIO

from edge_runtime.audio.inputs import choose, default, inputs, portaudio, rate_of
from edge_runtime.errors import EdgeRuntimeError, MicrophoneError

OPENED = b"O"
"""The microphone records: JSON with its `name`, `index` and `rate`."""

AUDIO = b"A"
"""float32 samples of one channel at the rate that was said."""

LOST = b"L"
"""The system lost audio before the next message."""

TROUBLE = b"T"
"""It cannot be opened, or is gone: JSON with `code`, `message` and `fix`."""

HEADER = struct.Struct("<cI")
BLOCK_MS = 32
WAITS = (0.1, 0.25, *[0.5] * 120, 1.0)
"""Seconds before it is tried again: the last for as long as it is gone."""


def main() -> None:
    """Record what the arguments say: device ("" is the default one), channel, rate (0: any)."""
    device, channel, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # meant for the server, which still wants the rest
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # libraries print what they like
    failures = 0
    while True:
        begun = time.monotonic()
        try:
            record(out, device or None, channel, rate)
        except EdgeRuntimeError as error:
            said = {"code": error.code, "message": error.message, "fix": error.fix}
            say(out, TROUBLE, json.dumps(said).encode())
        failures = 0 if time.monotonic() - begun > 10 else failures + 1
        time.sleep(WAITS[min(failures, len(WAITS)) - 1])


def record(out: BinaryIO, wanted: str | None, channel: int, rate: int) -> None:
    """Write the microphone to `out` until it goes away; raises `EdgeRuntimeError` then."""
    sound = portaudio()
    sound._terminate()  # the only way to see what was plugged in since
    sound._initialize()
    device = choose(inputs(sound), wanted, default(sound))
    if channel > device.channels:
        raise MicrophoneError(
            f"microphone {device.name!r} has {device.channels} channels, and channel {channel} "
            "is asked for",
            "Correct channel of its [microphones] table.",
        )
    channels = channel or 1
    rate = rate or rate_of(sound, device, channels)
    size = rate * BLOCK_MS // 1000
    try:
        with sound.RawInputStream(
            samplerate=rate,
            blocksize=size,
            device=device.index,
            channels=channels,
            dtype="float32",
            latency=0.1,
        ) as stream:
            opened = {"name": device.name, "index": device.index, "rate": rate}
            say(out, OPENED, json.dumps(opened).encode())
            _copy(stream, out, size, channels)
    except sound.PortAudioError as error:
        raise MicrophoneError(
            f"microphone {device.name!r} cannot be used: {error}",
            "Check its cable, and close the program that uses it.",
        ) from error


def say(out: BinaryIO, kind: bytes, content: bytes = b"") -> None:
    """Write one message."""
    out.write(HEADER.pack(kind, len(content)) + content)


def _copy(stream: Any, out: BinaryIO, size: int, channels: int) -> None:
    """Block by block, the last of the channels that were opened."""
    while True:
        data, overflowed = stream.read(size)
        if overflowed:
            say(out, LOST)
        samples = memoryview(data).cast("B").cast("f")
        say(out, AUDIO, samples[channels - 1 :: channels].tobytes())


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
