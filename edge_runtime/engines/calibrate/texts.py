"""The greedy text of whole recordings, from a folder of graphs on the CPU."""

from __future__ import annotations

from pathlib import Path

import msgspec

from edge_runtime.audio.ring import Samples
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.tokens import Vocabulary
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.device import open_device


class Text(msgspec.Struct, frozen=True):
    """What a model writes; nothing where no turn would have `opened`.

    `logprob` is the mean log-probability of its tokens, None where there are none.
    """

    tokens: tuple[int, ...]
    text: str
    opened: bool = True
    logprob: float | None = None


SILENT = Text((), "", opened=False)
"""Of a recording in which nobody speaks, by the voice detector."""


class Writer:
    """Decodes one recording at a time as one segment, as `transcribe` does."""

    def __init__(self, graphs: Path, samples: int) -> None:
        """`samples` is the longest recording. Raises `DeviceError` or `ModelDamaged`."""
        self.chain = Chain(open_device("cpu"), graphs)
        self._runner = Runner(self.chain, Size(1, max(samples, self.chain.shape.shortest)))
        self._vocabulary = Vocabulary.load(graphs)

    def __call__(self, samples: Samples) -> Text:
        """The text of (n,) float32 samples at 16 kHz."""
        update = Update("calibrate", 0, Purpose.FINAL, 0, len(samples))
        (said,) = self._runner.run([update], [[samples]])
        mean = sum(said.logprobs) / len(said.logprobs) if said.logprobs else None
        return Text(said.tokens, self._vocabulary.text(said.tokens), logprob=mean)
