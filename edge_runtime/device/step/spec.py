"""What the step's kernels must know of a model: its file holds this beside the weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_runtime.errors import ModelDamaged, ModelMissing

FILE = "step.npz"
_SPEC = "spec"


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


def save(path: Path, spec: StepSpec, weights: dict[str, NDArray[Any]]) -> None:
    """Write `weights` and what they are of."""
    told = np.frombuffer(msgspec.json.encode(spec), np.uint8)
    arrays: dict[str, Any] = {_SPEC: told, **weights}
    with path.open("wb") as file:
        np.savez(file, **arrays)


def load(path: Path) -> tuple[StepSpec, dict[str, NDArray[Any]]]:
    """What `save` wrote; raises `ModelMissing` or `ModelDamaged`."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        spec = msgspec.json.decode(arrays.pop(_SPEC).tobytes(), type=StepSpec)
    except FileNotFoundError:
        raise ModelMissing(f"{path} does not exist", "Run: edge-runtime build MODEL") from None
    except (OSError, ValueError, KeyError, msgspec.MsgspecError) as error:
        raise ModelDamaged(f"{path}: {error}", "Run: edge-runtime build MODEL --again") from error
    return spec, arrays


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
