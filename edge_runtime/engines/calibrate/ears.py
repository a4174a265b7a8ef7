"""Whether, where and for how long a recording holds speech, by what live audio is heard with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from edge_runtime.audio.ring import Ring, Samples
from edge_runtime.audio.vad import VoiceDetector
from edge_runtime.config import Config
from edge_runtime.decode.reading import Model
from edge_runtime.decode.update import Hypothesis
from edge_runtime.device import open_device
from edge_runtime.engines.calibrate.room import Heard, listen
from edge_runtime.engines.calibrate.texts import Window
from edge_runtime.session import Options, Session

_FINALS = Options(partials=False, speculate=False)


class Ears:
    """One detector on the CPU; remembers nothing from one recording to the next."""

    def __init__(self, program: Path, config: Config | None = None) -> None:
        """`program` is the detector's graph. Raises `DeviceError`."""
        device = open_device("cpu")
        self._detector = VoiceDetector(device.load(program), device, 1)
        self._config = config or Config()

    def heard(self, samples: Samples) -> Heard:
        """What the detector says of (n,) float32 samples at 16 kHz."""
        return listen(self._detector, samples)

    def seconds(self, samples: Samples) -> float:
        """How much speech there is."""
        return self.heard(samples).spoken(self._config.listening.threshold)

    def windows(self, samples: Samples, model: Model) -> tuple[Window, ...]:
        """What a session has `model` decode of (n,) samples for its finals, in order."""
        session = Session("calibrate", model, self._config, _FINALS, Ring(max(len(samples), 1)))
        session.feed(samples)
        found: list[Window] = []
        for probability in self.heard(samples).probabilities:
            session.heard(float(probability))
            found += _due(session)
        session.stop()
        return (*found, *_due(session))


def _due(session: Session) -> Iterator[Window]:
    """The windows of finals that are due; nothing is decoded."""
    while (update := session.take()) is not None:
        yield update.start, update.end
        session.accept(Hypothesis(update, (), (), (), (), True, 0))
