"""Why a call of TensorRT failed: the call itself only says that it did."""

from __future__ import annotations

import threading

from edge_runtime.device.cuda.base import Driver
from edge_runtime.errors import DeviceError, DeviceLost


class Trouble:
    """What TensorRT said and what memory it was refused, for each thread by itself."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._own = threading.local()

    def said(self, message: str) -> None:
        """Keep what the library logged; the first counts, the rest is what came of it."""
        self._own.__dict__.setdefault("message", message)

    def refused(self, error: DeviceError) -> None:
        """Keep why there was no memory."""
        self._own.__dict__.setdefault("refusal", error)

    def clear(self) -> None:
        """Forget what was kept for this thread: a new call begins."""
        self._own.__dict__.clear()

    def error(self, failed: str) -> DeviceError:
        """The error to raise for a call of this thread that failed: `failed` says which, how.

        A `DeviceLost` where the device does not answer any more.
        """
        message: str | None = self._own.__dict__.get("message")
        refusal = self.refusal
        try:
            self._driver.free()
        except DeviceLost as lost:
            return DeviceLost(f"{failed}: {message or lost.message}", lost.fix)
        except DeviceError:
            pass  # it answers, and what it says of its memory is not what failed
        if refusal is not None:
            return DeviceError(f"{failed}: {refusal.message}", refusal.fix)
        return DeviceError(f"{failed}: {message}" if message else failed)

    @property
    def refusal(self) -> DeviceError | None:
        """Why this thread's call got no memory, if that is what it wanted."""
        found: DeviceError | None = self._own.__dict__.get("refusal")
        return found
