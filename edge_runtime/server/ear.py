"""The device's own microphone as the audio of a session."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from edge_runtime.audio.ring import Samples
from edge_runtime.errors import EdgeRuntimeError


class Microphone(Protocol):
    """Blocks of 16 kHz mono float32 until it is closed."""

    def close(self) -> None: ...

    def __iter__(self) -> Iterator[Samples]: ...


def open_microphone(source: str) -> Microphone:
    """The microphone of a start message's `source`, "mic:NAME" or "mic:"; blocks.

    Raises `MissingExtra`, `MicrophoneError`.
    """
    from edge_runtime.audio.microphone import Microphone as Device

    return Device(source.partition(":")[2] or None)


class Ear:
    """A thread that reads a microphone, block by block, for the event loop."""

    def __init__(
        self,
        microphone: Microphone,
        hear: Callable[[Samples], None],
        failed: Callable[[EdgeRuntimeError], None],
    ) -> None:
        """`hear` and `failed` are called on the running loop."""
        self._microphone = microphone
        self._hear = hear
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        threading.Thread(target=self._listen, name="microphone", daemon=True).start()

    async def close(self) -> None:
        """Stop listening; what was recorded before has been heard when it returns."""
        await asyncio.to_thread(self._microphone.close)
        await self._over.wait()

    def _listen(self) -> None:
        try:
            for block in self._microphone:
                self._loop.call_soon_threadsafe(self._hear, block)
        except EdgeRuntimeError as error:
            self._loop.call_soon_threadsafe(self._failed, error)
        finally:
            self._loop.call_soon_threadsafe(self._over.set)
