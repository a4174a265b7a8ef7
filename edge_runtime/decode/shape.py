"""What the runner must know of an exported model: it lies beside the graphs as `shape.json`."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import msgspec

from edge_runtime.errors import ModelDamaged, ModelMissing

FILE = "shape.json"


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """Dimensions and marks of an encoder–decoder model, and how its decoder is cut.

    `audio_seconds` and `draft_tokens` are what shapes are rounded up to where few shapes
    are better than exact ones.
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
        """The most text tokens of one decode: after the begin mark they still fit in a pass."""
        return max(self.draft_tokens) - 1

    def frames(self, samples: int) -> int:
        """Encoder frames of `samples`: unpadded convolutions, at least 0."""
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
        """The fewest samples that give so many frames, at least 1."""
        for kernel, stride in reversed(list(zip(self.kernels, self.strides, strict=True))):
            frames = (frames - 1) * stride + kernel
        return frames

    @property
    def shortest(self) -> int:
        """The fewest samples that give one frame."""
        return self.samples(1)


def load_shape(graphs: Path) -> ModelShape:
    """The shape in a folder of graphs; raises `ModelMissing` or `ModelDamaged`."""
    path = graphs / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=ModelShape)
    except FileNotFoundError:
        raise ModelMissing(f"{path} does not exist", "Run: edge-runtime pull MODEL") from None
    except msgspec.MsgspecError as error:
        raise ModelDamaged(f"{path}: {error}", "Run: edge-runtime pull MODEL --again") from None
