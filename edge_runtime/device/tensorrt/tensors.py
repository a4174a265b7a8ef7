"""A plan's inputs and outputs by name, and the shapes that its profiles hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edge_runtime.device.base import TensorSpec
from edge_runtime.device.tensorrt.engine import Engine
from edge_runtime.errors import ModelDamaged

Shape = tuple[int, ...]

ALIGNMENT = 256
"""Bytes that every address given to TensorRT must be a multiple of."""

_DTYPES: dict[str, Any] = {
    "FLOAT": np.float32,
    "HALF": np.float16,
    "INT64": np.int64,
    "INT32": np.int32,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "BOOL": np.bool_,
}


@dataclass(frozen=True)
class Profile:
    """An optimisation profile: least and greatest shape of every input."""

    index: int
    least: Mapping[str, Shape]
    most: Mapping[str, Shape]

    @property
    def size(self) -> int:
        """Elements of all inputs at their greatest: of two that fit, the smaller is the faster."""
        return sum(math.prod(shape) for shape in self.most.values())

    def outside(self, shapes: Mapping[str, Shape]) -> str | None:
        """The first input whose shape this profile does not hold, or None."""
        for name, shape in shapes.items():
            bounds = zip(self.least[name], shape, self.most[name], strict=True)
            if not all(least <= size <= most for least, size, most in bounds):
                return name
        return None

    def allowed(self, name: str) -> str:
        """What `name` may measure, as `(1..8, 80)`."""
        pairs = zip(self.least[name], self.most[name], strict=True)
        return text([f"{low}" if low == high else f"{low}..{high}" for low, high in pairs])


def text(shape: Sequence[object]) -> str:
    """A shape as people read it: `(1..8, 80)`; `?` is a dimension that a call decides."""
    return f"({', '.join('?' if size is None else str(size) for size in shape)})"


def read_specs(engine: Engine) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
    """Inputs and outputs of an engine. Raises `ModelDamaged` for what no plan of ours has."""
    api, raw = engine.tensorrt.api, engine.raw
    inputs: dict[str, TensorSpec] = {}
    outputs: dict[str, TensorSpec] = {}
    for index in range(raw.num_io_tensors):
        name = raw.get_tensor_name(index)
        kind = raw.get_tensor_dtype(name).name
        where = raw.get_tensor_location(name)
        if kind not in _DTYPES or where != api.TensorLocation.DEVICE:
            raise ModelDamaged(
                f"{engine.name}: {name!r} is {kind} in memory of the {where.name.lower()}",
                "Run: edge-runtime build MODEL",
            )
        shape = tuple(None if size < 0 else size for size in raw.get_tensor_shape(name))
        spec = TensorSpec(name, np.dtype(_DTYPES[kind]), shape)
        mode = raw.get_tensor_mode(name)
        (inputs if mode == api.TensorIOMode.INPUT else outputs)[name] = spec
    return inputs, outputs


def read_profiles(engine: Engine, inputs: Mapping[str, TensorSpec]) -> list[Profile]:
    """The profiles of an engine, smallest first."""
    raw = engine.raw
    profiles = []
    for index in range(raw.num_optimization_profiles):
        least: dict[str, Shape] = {}
        most: dict[str, Shape] = {}
        for name, spec in inputs.items():
            if None in spec.shape:
                low, _, high = raw.get_tensor_profile_shape(name, index)
            else:  # profiles say nothing of what is fixed
                low = high = spec.shape
            least[name], most[name] = tuple(low), tuple(high)
        profiles.append(Profile(index, least, most))
    return sorted(profiles, key=lambda profile: profile.size)
