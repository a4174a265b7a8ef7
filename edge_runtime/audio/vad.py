"""The voice detector: how probable speech is in each 32 ms frame, all streams in one batch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.audio import FRAME
from edge_runtime.audio.ring import Samples
from edge_runtime.device.base import Call, Device, Program, Stream
from edge_runtime.errors import DeviceError

CONTEXT = 64
"""Samples before a frame that the model sees with it."""

STATE = 128
"""Width of each of the two recurrent states."""

AT_ONCE = 8
"""Frames of one stream that are judged in one go, at most: one by one each costs twice as much."""

BOUND = 256
"""Shapes of batches that are kept bound to their memory."""


def pieces(samples: Samples) -> Iterator[Samples]:
    """The whole frames of a recording, as many at a time as `VoiceDetector.hear` takes."""
    whole, most = len(samples) // FRAME * FRAME, AT_ONCE * FRAME
    for start in range(0, whole, most):
        yield samples[start : min(start + most, whole)]


class VoiceDetector:
    """Silero's recurrent detector with one slot of state for each stream; one thread calls it.

    The program maps `audio` (N, 576), `rows` (T, B), `frames` (B,) and the states `h`, `c`
    (B, 128) to `probability` (T, B) and `h_next`, `c_next`. A call gathers the frames of those
    streams that have any into a dense batch, so its cost follows them and not the slots. All memory
    is allocated here.
    """

    def __init__(self, program: Program, device: Device, rows: int) -> None:
        """`rows` is the most streams at once. Raises `DeviceError` when memory is short."""
        self._program = program
        self._stream: Stream = device.stream()
        most = rows * AT_ONCE
        shapes: dict[str, tuple[tuple[int, ...], type[np.generic]]] = {
            "audio": ((most, CONTEXT + FRAME), np.float32),
            "rows": ((most,), np.int64),
            "frames": ((rows,), np.int32),
            "h": ((rows, STATE), np.float32),
            "c": ((rows, STATE), np.float32),
            "probability": ((most,), np.float32),
            "h_next": ((rows, STATE), np.float32),
            "c_next": ((rows, STATE), np.float32),
        }
        self._buffers = {
            name: device.alloc(shape, dtype, "pinned") for name, (shape, dtype) in shapes.items()
        }
        self._moves = tuple(
            (self._host(name), self._host(name + "_next"), np.zeros((rows, STATE), np.float32))
            for name in ("h", "c")
        )
        self._context = np.zeros((rows, CONTEXT), np.float32)
        self._calls: OrderedDict[tuple[int, int, int], Call] = OrderedDict()
        self._free = list(range(rows - 1, -1, -1))
        self._rows = rows

    def _host(self, name: str) -> NDArray[Any]:
        return self._buffers[name].host

    @property
    def room(self) -> int:
        """Streams that may still be opened."""
        return len(self._free)

    def open(self) -> int:
        """A slot for a fresh stream: zero context, zero state. Raises `DeviceError` when full."""
        if not self._free:
            raise DeviceError(
                f"all {self._rows} streams of the voice detector are in use",
                "Close a stream, or raise serving.max_sessions.",
            )
        slot = self._free.pop()
        self._context[slot] = 0.0
        for _, _, states in self._moves:
            states[slot] = 0.0
        return slot

    def close(self, slot: int) -> None:
        """Give a slot back. Raises `DeviceError` when it is not open."""
        if slot in self._free or not 0 <= slot < self._rows:
            raise DeviceError(f"slot {slot} of the voice detector is not open")
        self._free.append(slot)

    def hear(self, slots: Sequence[int], samples: Sequence[Samples]) -> list[list[float]]:
        """How probable speech is in the next frames of each of these open slots.

        `samples` are float32 (512 · n,), 1 to `AT_ONCE` frames, for each. A slot may occur once.
        Raises `DeviceError` when the model fails; no state has changed then.
        """
        count = len(slots)
        if not count:
            return []
        assert len(set(slots)) == count, "a stream is twice in one batch"
        frames = [len(each) // FRAME for each in samples]
        total, turns = sum(frames), max(frames)
        assert all(1 <= number <= AT_ONCE for number in frames), f"{frames} frames of streams"
        ends = np.cumsum(frames)
        chosen = np.asarray(slots)
        audio = self._host("audio")[:total]
        for end, number, slot, each in zip(ends.tolist(), frames, slots, samples, strict=True):
            mine = audio[end - number : end]
            mine[:, CONTEXT:] = each.reshape(number, FRAME)
            mine[0, :CONTEXT] = self._context[slot]
            mine[1:, :CONTEXT] = mine[:-1, FRAME:]
        self._host("frames")[:count] = frames
        # A turn that a stream does not have is of its last row, and not looked at.
        left = np.maximum(np.asarray(frames) - np.arange(turns)[:, None], 1)
        self._host("rows")[: turns * count] = (ends - left).ravel()
        for before, _, states in self._moves:
            before[:count] = states[chosen]
        self._call(total, turns, count)()
        self._stream.synchronize()
        self._context[chosen] = audio[ends - 1, FRAME:]
        for _, after, states in self._moves:
            states[chosen] = after[:count]
        found = self._host("probability")[: turns * count].reshape(turns, count).T.tolist()
        return [heard[:number] for heard, number in zip(found, frames, strict=True)]

    def _call(self, total: int, turns: int, count: int) -> Call:
        """So many frames in all, so many of one stream at most, so many streams."""
        key = (total, turns, count)
        call = self._calls.get(key)
        if call is None:
            shapes = {"rows": (turns, count), "frames": (count,), "probability": (turns, count)}
            shapes["audio"] = (total, CONTEXT + FRAME)
            views = {
                name: buffer.view(shapes.get(name, (count, STATE)))
                for name, buffer in self._buffers.items()
            }
            call = self._calls[key] = self._program.bind(views, self._stream)
            if len(self._calls) > BOUND:
                self._calls.popitem(last=False)
        else:
            self._calls.move_to_end(key)
        return call


class Ears:
    """Detectors side by side, so that each may have a thread: a stream stays with one of them."""

    def __init__(self, detectors: Sequence[VoiceDetector]) -> None:
        self.detectors = tuple(detectors)

    def open(self) -> int:
        """A slot of the detector with the most room. Raises `DeviceError` when all are full."""
        count = len(self.detectors)
        which = max(range(count), key=lambda number: self.detectors[number].room)
        return self.detectors[which].open() * count + which

    def close(self, slot: int) -> None:
        """Give a slot back. Raises `DeviceError` when it is not open."""
        own, which = divmod(slot, len(self.detectors))
        self.detectors[which].close(own)

    def shared(self, slots: Sequence[int]) -> list[tuple[VoiceDetector, list[int], list[int]]]:
        """Each detector that has any of `slots`, their places among them, and its own slots."""
        count, found = len(self.detectors), []
        for which, detector in enumerate(self.detectors):
            places = [place for place, slot in enumerate(slots) if slot % count == which]
            if places:
                found.append((detector, places, [slots[place] // count for place in places]))
        return found
