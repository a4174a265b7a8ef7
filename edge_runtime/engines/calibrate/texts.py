"""The greedy text of recordings, turn by turn, from a folder of graphs on the CPU."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from edge_runtime.audio.ring import Samples
from edge_runtime.decode.reading import Model
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.tokens import Vocabulary
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.device import open_device

Window = tuple[int, int]
"""The samples of a recording that are decoded at once: from the first to before the second."""


class Turn(msgspec.Struct, frozen=True):
    """What a model writes of one window: tokens without marks.

    `logprob` is the mean log-probability of its tokens, None where there are none.
    """

    window: Window
    tokens: tuple[int, ...]
    text: str
    logprob: float | None = None


class Text(msgspec.Struct, frozen=True):
    """What a model writes of a recording; there are no turns where nobody speaks."""

    turns: tuple[Turn, ...] = ()

    @property
    def text(self) -> str:
        return " ".join(turn.text for turn in self.turns if turn.text)

    @property
    def windows(self) -> tuple[Window, ...]:
        return tuple(turn.window for turn in self.turns)


class Writer:
    """Decodes one window at a time, as the final of a session."""

    def __init__(self, graphs: Path, samples: int) -> None:
        """`samples` is the longest window. Raises `DeviceError` or `ModelDamaged`."""
        self.chain = Chain(open_device("cpu"), graphs)
        self.model = Model(self.chain.shape, Vocabulary.load(graphs))
        self.runner = Runner(self.chain, Size(1, max(samples, self.chain.shape.shortest)))

    def __call__(self, samples: Samples) -> Turn:
        """The text of (n,) float32 samples at 16 kHz, all at once."""
        update = Update("calibrate", 0, Purpose.FINAL, 0, len(samples))
        (said,) = self.runner.run([update], [[samples]])
        mean = sum(said.logprobs) / len(said.logprobs) if said.logprobs else None
        text = self.model.vocabulary.text(said.tokens)
        return Turn((0, len(samples)), said.tokens, text, mean)

    def text(self, samples: Samples, windows: Iterable[Window]) -> Text:
        """The text of those windows of (n,) samples."""
        turns = (
            msgspec.structs.replace(self(samples[slice(*window)]), window=window)
            for window in windows
        )
        return Text(tuple(turns))
