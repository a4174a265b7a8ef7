"""What the step's kernels must know of a model: its file holds this beside the weights."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

FILE = "step.npz"


class StepSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Dimensions of the decoder, and its alignment heads as (layer, head)."""

    layers: int
    width: int
    heads: int
    head_dim: int
    rotary: int
    inner: int
    past: int
    vocabulary: int
    theta: float
    epsilon: float
    alignment_heads: tuple[tuple[int, int], ...]

    def slots(self, layer: int) -> int:
        """The alignment heads of a layer for a kernel: four bits a head, its place or 15."""
        places = {head: n for n, (at, head) in enumerate(self.alignment_heads) if at == layer}
        return sum(places.get(head, 15) << (4 * head) for head in range(self.heads))


def expected(spec: StepSpec) -> dict[str, tuple[int, ...]]:
    """The names and shapes of all weights, matrices as (in, out)."""
    whole = spec.heads * spec.head_dim
    each: Sequence[tuple[str, tuple[int, ...]]] = (
        ("self_norm", (spec.width,)),
        ("qkv", (spec.width, 3 * whole)),
        ("self_out", (whole, spec.width)),
        ("cross_norm", (spec.width,)),
        ("query", (spec.width, whole)),
        ("cross_out", (whole, spec.width)),
        ("mlp_norm", (spec.width,)),
        ("fc1", (spec.width, 2 * spec.inner)),
        ("fc1_bias", (2 * spec.inner,)),
        ("fc2", (spec.inner, spec.width)),
        ("fc2_bias", (spec.width,)),
    )
    found = {f"{layer}.{name}": shape for layer in range(spec.layers) for name, shape in each}
    return {**found, "norm": (spec.width,)}
