"""What a session hears of one of the device's own microphones, on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from edge_runtime.audio.ring import Samples
from edge_runtime.server.microphones import Microphone


class Ear:
    """Listens to a share of a microphone, from construction to `close`."""

    def __init__(
        self,
        microphone: Microphone,
        hear: Callable[[Samples], None],
        warn: Callable[[str, str], None],
    ) -> None:
        """`hear` and `warn` are called on the running loop."""
        self._microphone = microphone
        self._hear = hear
        self._warn = warn
        self._loop = asyncio.get_running_loop()
        microphone.join(self)

    def hear(self, samples: Samples) -> None:
        """Called by the thread that records."""
        self._loop.call_soon_threadsafe(self._hear, samples)

    def warn(self, code: str, message: str) -> None:
        """Called by the thread that records."""
        self._loop.call_soon_threadsafe(self._warn, code, message)

    async def close(self) -> None:
        """Stop listening; what was recorded before has been heard when it returns."""
        await asyncio.to_thread(self._microphone.leave, self)
        heard = asyncio.Event()
        self._loop.call_soon(heard.set)  # after what was handed over before
        await heard.wait()
        await self._microphone.close()
