"""What a lane captured, by shape: the most recently used graphs."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from edge_runtime.device.base import Call, Device, Graph, Stream
from edge_runtime.errors import DeviceError

_log = logging.getLogger(__name__)

SLOW = 0.012
"""Seconds of a capture, after the warm-up, that are worth a line in the log."""


@dataclass
class Use:
    """How graphs were used; only grows. `failed` captures run as plain calls."""

    hits: int = 0
    misses: int = 0
    failed: int = 0


class _Plain:
    """A call that could not be captured."""

    def __init__(self, call: Call) -> None:
        self.replay = call

    def close(self) -> None:
        return None


class Graphs:
    """At most `most` graphs of one stream; the one longest unused goes first."""

    def __init__(self, device: Device, stream: Stream, most: int) -> None:
        self.use = Use()
        self.warm = False
        self._device = device
        self._stream = stream
        self._most = most
        self._kept: OrderedDict[Hashable, Graph] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable, bind: Callable[[], Call]) -> Graph:
        """The graph of `key`, captured from what `bind` gives where it is not there yet."""
        graph = self._kept.get(key)
        if graph is not None:
            self.use.hits += 1
            self._kept.move_to_end(key)
            return graph
        self.use.misses += 1
        began = time.perf_counter()
        graph = self._kept[key] = self._capture(key, bind())
        if len(self._kept) > self._most:
            # What it was made of goes with it: it must not be running any more.
            self._stream.synchronize()
            self._kept.popitem(last=False)[1].close()
        self._say(key, time.perf_counter() - began)
        return graph

    def close(self) -> None:
        while self._kept:
            self._kept.popitem()[1].close()

    def _capture(self, key: Hashable, call: Call) -> Graph:
        try:
            return self._device.capture(call, self._stream)
        except DeviceError as error:
            self.use.failed += 1
            _log.warning("no graph for %s, it runs as plain calls: %s", key, error)
            return _Plain(call)

    def _say(self, key: Hashable, seconds: float) -> None:
        if self.warm and seconds > SLOW:
            _log.info(
                "made %s in %.1f ms; %d of %d kept, %d hits, %d misses, %d failed",
                key, seconds * 1e3, len(self._kept), self._most,
                self.use.hits, self.use.misses, self.use.failed,
            )  # fmt: skip
