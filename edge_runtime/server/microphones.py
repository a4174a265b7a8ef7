"""The device's own microphones that sessions listen to: each is opened once, for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from edge_runtime.audio.capture import Capture, Listener
from edge_runtime.config import Profile


@dataclass
class _Shared:
    """A capture and how many use it, or wait for it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    capture: Capture | None = None
    users: int = 0


class Microphone:
    """One session's share of a microphone."""

    def __init__(self, microphones: Microphones, profile: Profile, capture: Capture) -> None:
        self._microphones = microphones
        self._profile = profile
        self._capture = capture

    def join(self, listener: Listener) -> None:
        """Let it hear what is recorded from now on."""
        self._capture.join(listener)

    def leave(self, listener: Listener) -> None:
        """It is not called any more when this returns."""
        self._capture.leave(listener)

    async def close(self) -> None:
        """Give the share back; the last one lets go of the device."""
        await self._microphones.release(self._profile)


class Microphones:
    """Those that are open, by their profiles."""

    def __init__(self) -> None:
        self._open: dict[Profile, _Shared] = {}

    async def open(self, source: str, profiles: Mapping[str, Profile]) -> Microphone:
        """The microphone of a start message's `source`, "mic:NAME" or "mic:".

        A name that is not in `profiles` is a device's; without a name it is the profile
        "default", or the system's default. Raises `MissingExtra`, `MicrophoneError`.
        """
        name = source.partition(":")[2]
        profile = profiles.get(name or "default", Profile(device=name))
        shared = self._open.setdefault(profile, _Shared())
        shared.users += 1
        try:
            async with shared.lock:
                if shared.capture is None:
                    shared.capture = await asyncio.to_thread(Capture, profile)
                return Microphone(self, profile, shared.capture)
        except BaseException:
            await self.release(profile)
            raise

    async def release(self, profile: Profile) -> None:
        """One user less."""
        shared = self._open[profile]
        shared.users -= 1
        async with shared.lock:
            if shared.users:
                return
            if shared.capture is not None:
                await asyncio.to_thread(shared.capture.close)
                shared.capture = None
            # not where somebody came while it was closed
            if shared.users < 1 and self._open.get(profile) is shared:
                del self._open[profile]
