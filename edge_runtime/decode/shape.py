"""What the runner must know of an exported model: it lies beside the graphs as `shape.json`."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import TypeVar

import msgspec

from edge_runtime.decode.prompt import TRANSCRIBE, Prompt
from edge_runtime.errors import ModelDamaged, ModelMissing

FILE = "shape.json"

S = TypeVar("S")


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """Dimensions and marks of an encoder–decoder model, and how its decoder is cut.

    `audio_seconds` and `draft_tokens` are what shapes are rounded up to where few shapes
    are better than exact ones. The encoder pads audio to a multiple of `window` samples,
    and takes `most` of them; 0 is no window, and no limit. `fused` tiles are for onnxruntime on
    a CPU: every row fills its audio, and keys and values may be appended where they lie.
    """

    decoder_tiles: tuple[int, ...]
    decoder_layers: int
    width: int
    heads: int
    padded_head_dim: int
    past: int
    vocabulary: int
    begin: int
    end: int
    tokens_per_second: float
    kernels: tuple[int, ...]
    strides: tuple[int, ...]
    audio_seconds: tuple[float, ...]
    draft_tokens: tuple[int, ...]
    rate: int = 16000
    prompt: Prompt = Prompt()
    window: int = 0
    most: int = 0
    fused: bool = False

    @property
    def grows(self) -> bool:
        """Whether text is only ever added to: no, the whole segment is read again each time."""
        return False

    @property
    def tiles(self) -> tuple[range, ...]:
        """The layers of each decoder tile."""
        ends = tuple(accumulate(self.decoder_tiles))
        return tuple(
            range(end - count, end) for end, count in zip(ends, self.decoder_tiles, strict=True)
        )

    @property
    def longest(self) -> int:
        """The most text tokens of one decode: behind what it begins with they fit in a pass."""
        return self.widest - len(self.opening())

    @property
    def widest(self) -> int:
        """The most tokens of one pass."""
        return max(self.draft_tokens)

    def opening(self, language: str = "", task: str = TRANSCRIBE) -> tuple[int, ...]:
        """The tokens that a decode begins with; raises `LanguageError` as `Prompt.tokens`."""
        return (self.begin, *self.prompt.tokens(language, task))

    def frames(self, samples: int) -> int:
        """Encoder frames of `samples`, padded to the window: at least 0."""
        return self.heard(self.padded(samples))

    def padded(self, samples: int) -> int:
        """So many samples, or as many more as fill the window."""
        return -(-samples // self.window) * self.window if self.window else samples

    def heard(self, samples: int) -> int:
        """Encoder frames of `samples` by themselves: unpadded convolutions, at least 0."""
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            samples = max(0, (samples - kernel) // stride + 1)
        return samples

    @property
    def frame_seconds(self) -> float:
        """Time from one encoder frame to the next."""
        step = 1
        for stride in self.strides:
            step *= stride
        return step / self.rate

    def samples(self, frames: int) -> int:
        """The fewest samples that give so many frames by themselves, at least 1."""
        for kernel, stride in reversed(list(zip(self.kernels, self.strides, strict=True))):
            frames = (frames - 1) * stride + kernel
        return frames

    @property
    def shortest(self) -> int:
        """The fewest samples that give one frame."""
        return self.samples(1)


def load_shape(graphs: Path, kind: type[S]) -> S:
    """The shape in a folder of graphs; raises `ModelMissing` or `ModelDamaged`."""
    path = graphs / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        raise ModelMissing(f"{path} does not exist", "Run: edge-runtime pull MODEL") from None
    except msgspec.MsgspecError as error:
        raise ModelDamaged(f"{path}: {error}", "Run: edge-runtime pull MODEL --again") from None


def save_shape(shape: msgspec.Struct, graphs: Path) -> None:
    """Put into a folder of graphs what `load_shape` reads."""
    (graphs / FILE).write_bytes(msgspec.json.encode(shape))
