"""A file of weights for our own kernels, and what they are of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_runtime.errors import ModelDamaged, ModelMissing

_SPEC = "spec"
_AGAIN = "Run: edge-runtime build MODEL --again"

Spec = TypeVar("Spec", bound=msgspec.Struct)
Arrays = dict[str, NDArray[Any]]


def save(path: Path, spec: msgspec.Struct, weights: Arrays) -> None:
    """Write `weights` and what they are of."""
    told = np.frombuffer(msgspec.json.encode(spec), np.uint8)
    arrays: dict[str, Any] = {_SPEC: told, **weights}
    with path.open("wb") as file:
        np.savez(file, **arrays)


def load(path: Path, kind: type[Spec]) -> tuple[Spec, Arrays]:
    """What `save` wrote; raises `ModelMissing` or `ModelDamaged`."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        spec = msgspec.json.decode(arrays.pop(_SPEC).tobytes(), type=kind)
    except FileNotFoundError:
        raise ModelMissing(f"{path} does not exist", "Run: edge-runtime build MODEL") from None
    except (OSError, ValueError, KeyError, msgspec.MsgspecError) as error:
        raise ModelDamaged(f"{path}: {error}", _AGAIN) from error
    return spec, arrays


def check(path: Path, weights: Arrays, expected: Mapping[str, tuple[int, ...]]) -> None:
    """Raises `ModelDamaged` for the first of the weights that has not the shape it should have."""
    for name, shape in expected.items():
        found = weights.get(name)
        if found is None or found.shape != shape:
            raise ModelDamaged(f"{path}: {name} is not {shape}", _AGAIN)
