"""A buffer that the host fills or reads, and its like on the device."""

from __future__ import annotations

from typing import Any

from edge_runtime.device.base import Buffer, Device, Stream


class Mirror:
    """Two buffers of one shape, or one where host and device share their memory.

    `kind` is the name under which its copies are counted.
    """

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: Any, kind: str) -> None:
        self._device = device
        self._kind = kind
        self.host: Buffer = device.alloc(shape, dtype, "mapped")
        self.there: Buffer = self.host if device.integrated else device.alloc(shape, dtype)

    def send(self, stream: Stream, count: int) -> None:
        """Enqueue the copy of the first `count` elements to the device."""
        if self.host is not self.there:
            self._copy(self.host, self.there, count, stream)

    def fetch(self, stream: Stream, count: int) -> None:
        """Enqueue the copy of the first `count` elements from the device."""
        if self.host is not self.there:
            self._copy(self.there, self.host, count, stream)

    def _copy(self, source: Buffer, target: Buffer, count: int, stream: Stream) -> None:
        self._device.copy(source.view((count,)), target.view((count,)), stream, self._kind)
