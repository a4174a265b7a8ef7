"""What the runner must know of a model with a growing memory: `shape.json` beside its graphs."""

from __future__ import annotations

import msgspec

PARTS = ("frontend", "encoder", "adapter", "cross_kv", "decoder_kv")
"""The published programs, in the order that audio goes through them."""


class GrowingShape(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="growing"):
    """How audio becomes memory, and memory text.

    Audio is taken in by `chunk` samples, which give `features` vectors each. The encoder looks at
    `left` of them before those that are new, and needs `ahead` that follow; what it gives is
    remembered in keys and values of `depth` layers. `files` are the programs of `PARTS`.
    """

    files: dict[str, str]
    encoder_dim: int
    decoder_dim: int
    depth: int
    heads: int
    head_dim: int
    vocabulary: int
    begin: int
    end: int
    ahead: int
    left: int
    conv1: int
    conv2: int
    past: int
    tokens_per_second: float
    chunk: int = 1280
    features: int = 4
    rate: int = 16000

    @property
    def grows(self) -> bool:
        """Whether text is only ever added to: no, it is read again from the grown memory."""
        return False

    @property
    def frame_seconds(self) -> float:
        """Time from one vector of the memory to the next."""
        return self.chunk / self.features / self.rate

    @property
    def shortest(self) -> int:
        """Samples of the least audio that makes the device work."""
        return self.chunk

    def vectors(self, samples: int) -> int:
        """How many vectors so much audio gives at most, its last chunk filled up."""
        return -(-samples // self.chunk) * self.features

    @property
    def front(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """The front end's states by name: shape and dtype."""
        return {
            "sample_buffer": ((1, 79), "float32"),
            "sample_len": ((1,), "int64"),
            "conv1_buffer": ((1, self.conv1, 4), "float32"),
            "conv2_buffer": ((1, self.conv2, 4), "float32"),
            "frame_count": ((1,), "int64"),
        }
