"""A clip decoded at once: what the streamed text is compared with."""

from __future__ import annotations

import functools

from edge_runtime.audio.endpoint import Endpointer, Onset
from edge_runtime.audio.ring import Samples
from edge_runtime.audio.vad import pieces
from edge_runtime.bench.judge import detector
from edge_runtime.bench.served import Served
from edge_runtime.config import Config
from edge_runtime.events import Final
from edge_runtime.transcribe import Transcriber, WholeUtterance

LONGEST = 40
"""Seconds that are decoded as one segment where the engine takes them.

A longer clip is cut as a file is.
"""


class Evidence:
    """Whether the voice detector hears speech at all, by the rule that opens a turn."""

    def __init__(self, config: Config) -> None:
        """Raises `ModelMissing` when the detector was never pulled."""
        self._ears = detector(1)
        self._config = config

    def __call__(self, pcm: Samples) -> bool:
        """Of a clip of (samples,) float32 at 16 kHz."""
        endpointer = Endpointer(self._config.listening, 500)
        slot = self._ears.open()
        try:
            for piece in pieces(pcm):
                (heard,) = self._ears.hear([slot], [piece])
                said = [verdict for each in heard for verdict in endpointer.heard(each)]
                if any(isinstance(verdict, Onset) for verdict in said):
                    return True
            return False
        finally:
            self._ears.close(slot)


class Whole:
    """Decodes whole clips in this process; no speech, no text."""

    def __init__(self, model: str = "", device: str = "", config: Config | None = None) -> None:
        """Raises `ModelMissing` when the model was never pulled."""
        self._config = config or Config()
        serving = self._config.serving
        self._model, self._device = model or serving.model, device or serving.device
        self._utterance = WholeUtterance(
            self._model,
            device=self._device,
            seconds=LONGEST,
            computing=self._config.computing,
        )
        form, utterance = self._utterance.served, self._utterance
        self.served = Served(
            "bench",
            utterance.model,
            utterance.device,
            form.precision,
            form.variant or "",
            form.forced,
            form.unused or "",
        )
        self._evidence = Evidence(form.suited(self._config))

    @functools.cached_property
    def _recordings(self) -> Transcriber:
        return Transcriber(self._model, device=self._device, config=self._config)

    def __call__(self, pcm: Samples) -> str:
        """The text of (samples,) float32 at 16 kHz."""
        if not self._evidence(pcm):
            return ""
        if len(pcm) <= self._utterance.longest:
            return self._utterance(pcm)
        said = self._recordings.transcribe([pcm])
        return " ".join(event.text for event in said if isinstance(event, Final))
