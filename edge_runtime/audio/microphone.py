"""Live audio from one of the machine's own microphones."""

from __future__ import annotations

import importlib.util
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from edge_runtime.audio import RATE
from edge_runtime.audio.convert import Converter, converted
from edge_runtime.audio.ring import Samples
from edge_runtime.errors import MicrophoneError, MissingExtra

_BLOCK_MS = 32
_QUEUE = 2000 // _BLOCK_MS
_STALL_SECONDS = 5.0


@dataclass(frozen=True)
class Input:
    """A device that can record: its index, its name, and the rate it prefers (Hz)."""

    index: int
    name: str
    rate: int


class Microphone:
    """A microphone, recording from construction to `close`.

    The recording thread writes into a queue of two seconds. When the reader is late the
    oldest audio goes, and `dropped` counts its samples (16 kHz).
    """

    live = True
    seconds = None

    def __init__(self, wanted: str | int | None = None) -> None:
        """Open the device with this index, or with this in its name; None: the default one.

        Raises `MissingExtra` without sounddevice, `MicrophoneError` when PortAudio or the
        device is missing, busy or ambiguous; it lists the devices there are.
        """
        sound = _sounddevice()
        device = choose(_inputs(sound), wanted, _default(sound))
        self.name = device.name
        self._blocks: deque[Samples] = deque()
        self._ready = threading.Condition()
        self._ended = False
        self._late = 0
        self._overflows = 0
        self._closed = False
        self._rate = _rate(sound, device)
        self._converter = Converter(self._rate)
        try:
            self._stream = self._started(sound, device)
        except sound.PortAudioError as error:
            raise MicrophoneError(
                f"microphone {device.name!r} cannot be opened: {error}",
                "Close the program that uses it, or choose another: --mic-name NAME",
            ) from error

    @property
    def dropped(self) -> int:
        """Samples at 16 kHz that were lost because they were not read in time."""
        return self._late * RATE // self._rate

    @property
    def warnings(self) -> list[str]:
        """What was odd so far."""
        said = self._converter.warnings
        if self._late:
            said.append(f"{self.dropped * 1000 // RATE} ms of audio came too fast and were dropped")
        if self._overflows:
            said.append(f"the system lost audio {self._overflows} times")
        return said

    def close(self) -> None:
        """Stop recording; a running iteration ends with what was recorded before."""
        self._closed = True
        self._stream.close()
        self._end()

    def __iter__(self) -> Iterator[Samples]:
        """Blocks until `close`. Raises `MicrophoneError` when the device goes away."""
        yield from converted(self._recorded(), self._converter.push, self._converter.flush)
        if not self._closed:
            raise MicrophoneError(
                f"microphone {self.name!r} stopped", "Check its cable, then start again."
            )

    def __enter__(self) -> Microphone:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _started(self, sound: Any, device: Input) -> Any:
        """The stream of a device, recording; none stays open where it cannot."""
        stream = sound.InputStream(
            samplerate=self._rate,
            blocksize=self._rate * _BLOCK_MS // 1000,
            device=device.index,
            channels=1,
            dtype="float32",
            callback=self._record,
            finished_callback=self._end,
        )
        try:
            stream.start()
        except BaseException:
            stream.close()
            raise
        return stream

    def _recorded(self) -> Iterator[Samples]:
        while (block := self._next()) is not None:
            yield block

    def _next(self) -> Samples | None:
        with self._ready:
            self._ready.wait_for(lambda: self._blocks or self._ended, _STALL_SECONDS)
            return self._blocks.popleft() if self._blocks else None

    def _record(self, data: Samples, frames: int, when: Any, status: Any) -> None:
        """Called by PortAudio's thread, which must not wait."""
        with self._ready:
            self._overflows += bool(status and status.input_overflow)
            if len(self._blocks) == _QUEUE:
                self._late += len(self._blocks.popleft())
            self._blocks.append(data[:, 0].copy())
            self._ready.notify()

    def _end(self) -> None:
        with self._ready:
            self._ended = True
            self._ready.notify()


def microphones() -> list[Input]:
    """The devices that can record. Raises like `Microphone`."""
    return _inputs(_sounddevice())


def choose(inputs: Sequence[Input], wanted: str | int | None, default: int | None = None) -> Input:
    """The one input that is meant, by index, exact name or part of a name (any case).

    Raises `MicrophoneError` with the list of inputs when there is none, or more than one.
    """
    if not inputs:
        raise MicrophoneError(
            "no microphone was found", "Plug one in, then check that `arecord -l` lists it."
        )
    listed = "; ".join(f"{device.index}: {device.name}" for device in inputs)
    if wanted is None:
        return next((device for device in inputs if device.index == default), inputs[0])
    text = str(wanted).casefold()
    tests = (
        lambda device: text == str(device.index),
        lambda device: text == device.name.casefold(),
        lambda device: text in device.name.casefold(),
    )
    for test in tests:
        found = [device for device in inputs if test(device)]
        if len(found) == 1:
            return found[0]
        if found:
            raise MicrophoneError(
                f"{len(found)} microphones are called {wanted!r}",
                f"Give an index. There are {listed}.",
            )
    raise MicrophoneError(f"there is no microphone {wanted!r}", f"There are {listed}.")


def _sounddevice() -> Any:
    if importlib.util.find_spec("sounddevice") is None:
        raise MissingExtra(
            "microphones need the package sounddevice", "Run: pip install 'edge-runtime[mic]'"
        )
    try:
        import sounddevice
    except OSError as error:
        raise MicrophoneError(
            f"PortAudio, the library for microphones, is missing: {error}",
            "Run: sudo apt install libportaudio2",
        ) from error
    return sounddevice


def _inputs(sound: Any) -> list[Input]:
    try:
        devices = sound.query_devices()
    except sound.PortAudioError as error:
        raise MicrophoneError(
            f"microphones cannot be listed: {error}",
            "Check that `arecord -l` lists one for this user, who may have to be in group audio.",
        ) from error
    return [
        Input(int(device["index"]), str(device["name"]), int(device["default_samplerate"]))
        for device in devices
        if device["max_input_channels"] > 0
    ]


def _default(sound: Any) -> int | None:
    index = int(sound.default.device[0])
    return index if index >= 0 else None


def _rate(sound: Any, device: Input) -> int:
    """16 kHz where the device can, else the rate that it prefers."""
    try:
        sound.check_input_settings(
            device=device.index, channels=1, dtype="float32", samplerate=RATE
        )
    except (sound.PortAudioError, ValueError):
        return device.rate
    return RATE
