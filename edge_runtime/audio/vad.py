"""The voice detector: how probable speech is in each 32 ms frame, all streams in one batch."""

from __future__ import annotations

from collections.abc import Sequence

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


class VoiceDetector:
    """Silero's recurrent detector with one slot of state for each stream; one thread calls it.

    The program maps `audio` (B, 576) and the states `h`, `c` (B, 128) to `probability`
    (B,) and `h_next`, `c_next`. A call gathers the streams whose frame is due into a dense
    batch, so its cost follows them and not the slots. All memory is allocated here, and
    one binding for each batch size at its first use.
    """

    def __init__(self, program: Program, device: Device, rows: int) -> None:
        """`rows` is the most streams at once. Raises `DeviceError` when memory is short."""
        self._program = program
        self._stream: Stream = device.stream()
        shapes = {
            "audio": (rows, CONTEXT + FRAME),
            "h": (rows, STATE),
            "c": (rows, STATE),
            "probability": (rows,),
            "h_next": (rows, STATE),
            "c_next": (rows, STATE),
        }
        self._buffers = {
            name: device.alloc(shape, np.float32, "pinned") for name, shape in shapes.items()
        }
        host = {name: buffer.host for name, buffer in self._buffers.items()}
        self._audio: NDArray[np.float32] = host["audio"]
        self._probability: NDArray[np.float32] = host["probability"]
        self._moves = tuple(
            (host[name], host[name + "_next"], np.zeros((rows, STATE), np.float32))
            for name in ("h", "c")
        )
        self._context = np.zeros((rows, CONTEXT), np.float32)
        self._calls: dict[int, Call] = {}
        self._free = list(range(rows - 1, -1, -1))
        self._rows = rows

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

    def probabilities(
        self, slots: Sequence[int], frames: Sequence[Samples] | Samples
    ) -> list[float]:
        """How probable speech is in the next frame, float32 (512,), of each of these open slots.

        A slot may occur once. Raises `DeviceError` when the model fails; no state has
        changed then.
        """
        count = len(slots)
        if not count:
            return []
        assert len(set(slots)) == count, "two frames of one stream in one batch"
        call = self._calls.get(count) or self._bind(count)
        chosen = slots[0] if count == 1 else np.asarray(slots)
        audio = self._audio[:count]
        audio[:, :CONTEXT] = self._context[chosen]
        for row, frame in enumerate(frames):
            audio[row, CONTEXT:] = frame
        for before, _, states in self._moves:
            before[:count] = states[chosen]
        call()
        self._stream.synchronize()
        self._context[chosen] = audio[:, FRAME:]
        for _, after, states in self._moves:
            states[chosen] = after[:count]
        found: list[float] = self._probability[:count].tolist()
        return found

    def _bind(self, count: int) -> Call:
        views = {
            name: buffer.view((count, *buffer.shape[1:])) for name, buffer in self._buffers.items()
        }
        call = self._calls[count] = self._program.bind(views, self._stream)
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
