"""Whether and for how long a recording holds speech, by the voice detector that live audio has."""

from __future__ import annotations

from pathlib import Path

from edge_runtime.audio.endpoint import Endpointer, Onset
from edge_runtime.audio.ring import Samples
from edge_runtime.audio.vad import VoiceDetector
from edge_runtime.config import Listening
from edge_runtime.device import open_device
from edge_runtime.engines.calibrate.room import Heard, listen

_ENDPOINT_MS = 500


class Ears:
    """One detector on the CPU; remembers nothing from one recording to the next."""

    def __init__(self, program: Path, listening: Listening | None = None) -> None:
        """`program` is the detector's graph. Raises `DeviceError`."""
        device = open_device("cpu")
        self._detector = VoiceDetector(device.load(program), device, 1)
        self._listening = listening or Listening()

    def heard(self, samples: Samples) -> Heard:
        """What the detector says of (n,) float32 samples at 16 kHz."""
        return listen(self._detector, samples)

    def seconds(self, samples: Samples) -> float:
        """How much speech there is."""
        return self.heard(samples).spoken(self._listening.threshold)

    def opens(self, samples: Samples) -> bool:
        """Whether a live session would begin a turn: without one nothing is decoded."""
        endpointer = Endpointer(self._listening, _ENDPOINT_MS)
        return any(
            isinstance(said, Onset)
            for probability in self.heard(samples).probabilities
            for said in endpointer.heard(float(probability))
        )
