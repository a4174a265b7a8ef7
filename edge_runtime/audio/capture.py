"""One of the device's own microphones, opened once and heard by any number of listeners."""

from __future__ import annotations

import logging
import threading
import time
from typing import Protocol

import numpy as np

from edge_runtime.audio import RATE
from edge_runtime.audio.convert import Converter
from edge_runtime.audio.level import Level
from edge_runtime.audio.recording import Lost, Message, Opened, Recording, Trouble
from edge_runtime.audio.ring import Samples
from edge_runtime.config import Profile
from edge_runtime.errors import EdgeRuntimeError, MicrophoneError

OPEN_SECONDS = 10.0
STALL_SECONDS = 3.0
"""How long the device may be silent before the recording process counts as stuck."""

CALM_SECONDS = 10.0
"""After so long without lost audio it is warned of again."""

AGAIN_SECONDS = 0.5
"""Between two recording processes where the first ended soon."""

_TICK = 0.1
_log = logging.getLogger(__name__)


class Listener(Protocol):
    """Is called by the thread that records, and may not keep it waiting."""

    def hear(self, samples: Samples) -> None:
        """16 kHz mono float32, at most a second; the array is shared and may not be changed."""

    def warn(self, code: str, message: str) -> None:
        """Something the listener should know."""


class Capture:
    """A microphone that records from construction to `close`.

    While it is away (unplugged, hung) its listeners hear silence as long as the gap, so that
    times stay those of the clock and what was said before gets its final; they are warned
    `microphone_lost` and, when it records again, `microphone_back`.
    """

    def __init__(self, profile: Profile) -> None:
        """Open the device; blocks until it records.

        Raises `MissingExtra`, `MicrophoneError` where it cannot be opened now.
        """
        self._profile = profile
        self._gain = np.float32(10 ** (profile.gain_db / 20))
        self._listeners: list[Listener] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._converter = Converter(RATE)
        self._level = Level(RATE)
        self._away = ""  # why it does not record
        self._until = 0.0  # monotonic seconds up to which the listeners have heard something
        self._gap_at = -CALM_SECONDS
        self._began = time.monotonic()  # when the recording process was started
        self._said = 0.0  # when the recording process last said something
        self._recording = Recording(profile)
        try:
            self.name = self._first()
        except BaseException:
            self._recording.close()
            raise
        self._until = self._said
        self._thread = threading.Thread(target=self._run, name="microphone", daemon=True)
        self._thread.start()

    def join(self, listener: Listener) -> None:
        """Let it hear what is recorded from now on; it is told where the microphone is away."""
        with self._lock:
            self._listeners.append(listener)
            if self._away:
                listener.warn("microphone_lost", self._away)

    def leave(self, listener: Listener) -> None:
        """It is not called any more when this returns."""
        with self._lock:
            self._listeners.remove(listener)

    def close(self) -> None:
        """Stop recording and let go of the device."""
        self._closing.set()
        self._thread.join()

    def _first(self) -> str:
        """The name of the device that was opened."""
        end = time.monotonic() + OPEN_SECONDS
        while time.monotonic() < end:
            for message in self._recording.read(_TICK):
                if isinstance(message, Trouble):
                    raise _error(message)
                if isinstance(message, Opened):
                    self._opened(message)
                    return message.name
        raise MicrophoneError(
            f"the microphone did not open within {OPEN_SECONDS:g} s",
            "Close the program that uses it, or plug it in again.",
        )

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                self._step()
        finally:
            self._recording.close()

    def _step(self) -> None:
        """What comes within a tenth of a second."""
        try:
            messages = self._recording.read(_TICK)
            now = time.monotonic()
            if messages:
                self._said = now
            elif now - self._said > STALL_SECONDS:
                raise MicrophoneError("it gives no audio any more", "Plug it in again.")
        except EdgeRuntimeError as error:
            self._lose(error.message)
            self._again()
            return
        for message in messages:
            self._take(message)
        if self._away:
            self._fill()

    def _again(self) -> None:
        """Another recording process; not one after the other where they end at once."""
        self._recording.close()
        while not self._closing.is_set():
            young = time.monotonic() - self._began < CALM_SECONDS
            self._closing.wait(AGAIN_SECONDS if young else _TICK)
            self._began = self._said = time.monotonic()
            try:
                self._recording = Recording(self._profile)
            except OSError as error:  # no memory, no processes
                _log.warning("microphone %r: %s", self.name, error)
            else:
                return

    def _take(self, message: Message) -> None:
        if isinstance(message, Opened):
            self._opened(message)
        elif isinstance(message, Trouble):
            self._lose(message.message)
        elif isinstance(message, Lost):
            self._gap()
        else:
            self._hear(message)

    def _opened(self, opened: Opened) -> None:
        self._converter = Converter(opened.rate)
        self._level.again(opened.rate)
        self._said = time.monotonic()

    def _hear(self, samples: Samples) -> None:
        if self._away:
            self._fill()
            self._warn("microphone_back", f"microphone {self.name!r} records again", away="")
        self._until = time.monotonic()
        if self._profile.gain_db:
            samples = samples * self._gain
        self._give(self._converter.push(samples))
        for code, message in self._level.push(samples):
            self._warn(code, message)

    def _lose(self, why: str) -> None:
        """Say once that it is away; silence goes on from where it was last heard."""
        if self._away:
            return
        self._give(self._converter.flush())
        message = f"microphone {self.name!r} is away: {why}"
        self._warn("microphone_lost", message, away=message)

    def _gap(self) -> None:
        """Say that the system lost audio, unless it was said and went on since."""
        now = time.monotonic()
        if now - self._gap_at > CALM_SECONDS:
            self._warn("microphone_gaps", "the system lost audio: the machine is too busy")
        self._gap_at = now

    def _fill(self) -> None:
        """Silence for the time that went by."""
        now = time.monotonic()
        count = min(int((now - self._until) * RATE), RATE)
        self._until = self._until + count / RATE
        self._give(np.zeros(count, np.float32))

    def _give(self, samples: Samples) -> None:
        if len(samples):
            with self._lock:
                for listener in self._listeners:
                    listener.hear(samples)

    def _warn(self, code: str, message: str, away: str | None = None) -> None:
        _log.warning("%s", message)
        with self._lock:  # so that who joins is told once
            self._away = self._away if away is None else away
            for listener in self._listeners:
                listener.warn(code, message)


def _error(trouble: Trouble) -> EdgeRuntimeError:
    error = MicrophoneError(trouble.message, trouble.fix)
    error.code = trouble.code
    return error
