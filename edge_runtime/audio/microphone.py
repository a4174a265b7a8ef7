"""Live audio from one of the machine's own microphones."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from edge_runtime.audio import RATE
from edge_runtime.audio.convert import Converter, converted
from edge_runtime.audio.inputs import Input, choose, default, inputs, portaudio, rate_of
from edge_runtime.audio.ring import Samples
from edge_runtime.errors import MicrophoneError

_BLOCK_MS = 32
_QUEUE = 2000 // _BLOCK_MS
_STALL_SECONDS = 5.0


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
        sound = portaudio()
        device = choose(inputs(sound), wanted, default(sound))
        self.name = device.name
        self._blocks: deque[Samples] = deque()
        self._ready = threading.Condition()
        self._ended = False
        self._late = 0
        self._overflows = 0
        self._closed = False
        self._rate = rate_of(sound, device)
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
