"""What the encoder's kernels must know of a model: its file holds this beside the weights."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

FILE = "encode.npz"


class EncodeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Dimensions of the front end, the encoder, and the decoder's cross-attention.

    `channels`, `kernels` and `strides` are those of the three convolutions, `memories` the
    layers of the decoder.
    """

    layers: int
    width: int
    heads: int
    head_dim: int
    rotary: int
    inner: int
    channels: tuple[int, int, int]
    kernels: tuple[int, int, int]
    strides: tuple[int, int, int]
    memories: int
    theta: float
    epsilon: float

    def frames(self, samples: int) -> tuple[int, int, int]:
        """What each convolution leaves of so many samples."""
        left = []
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            samples = max(0, (samples - kernel) // stride + 1)
            left.append(samples)
        return left[0], left[1], left[2]

    @property
    def depths(self) -> tuple[int, int, int]:
        """Values of a window of each convolution, in whole chunks of 32."""
        inputs = (1, *self.channels[:2])
        first, second, third = (
            -(-kernel * channels // 32) * 32
            for kernel, channels in zip(self.kernels, inputs, strict=True)
        )
        return first, second, third


def expected(spec: EncodeSpec) -> dict[str, tuple[int, ...]]:
    """The names and shapes of all weights, matrices as (in, out).

    Those of the convolutions have their windows' values in the order of memory: position, then
    channel. `conv2` has the weights of the norm before it in it; `conv2_sums` is what its
    columns add up to, `conv2_bias` has the norm's bias in it.
    """
    whole = spec.heads * spec.head_dim
    each: Sequence[tuple[str, tuple[int, ...]]] = (
        ("mix_norm", (spec.width,)),
        ("qkv", (spec.width, 3 * whole)),
        ("mix_out", (whole, spec.width)),
        ("mlp_norm", (spec.width,)),
        ("fc1", (spec.width, spec.inner)),
        ("fc1_bias", (spec.inner,)),
        ("fc2", (spec.inner, spec.width)),
        ("fc2_bias", (spec.width,)),
    )
    found = {f"{layer}.{name}": shape for layer in range(spec.layers) for name, shape in each}
    for number, (depth, channels) in enumerate(zip(spec.depths, spec.channels, strict=True), 1):
        found[f"conv{number}"] = (depth, channels)
    found["conv2_sums"] = found["conv2_bias"] = (spec.channels[1],)
    found["conv3_bias"] = (spec.channels[2],)
    found["norm"] = (spec.width,)
    found["memory"] = (spec.width, 2 * spec.memories * whole)
    return found
