"""Weights in the form that model hubs carry: one `.safetensors` file."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

from edge_runtime.engines.weights.base import Weights, damaged
from edge_runtime.errors import MissingExtra, ModelMissing


def read(path: Path) -> Weights:
    """All tensors of the file as float32, under the names they have in it.

    Raises `ModelMissing`, `ModelDamaged`, or `MissingExtra` where the
    safetensors package is not installed.
    """
    if not path.is_file():
        raise ModelMissing(f"{path} does not exist", "Run: edge-runtime pull MODEL")
    if importlib.util.find_spec("safetensors") is None:
        raise MissingExtra("safetensors is not installed", "Run: pip install 'edge-runtime[hub]'")
    from safetensors import SafetensorError, safe_open

    weights: Weights = {}
    try:
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118 - the file is no mapping
                weights[name] = np.asarray(file.get_tensor(name)).astype(np.float32)
    except (SafetensorError, TypeError, ValueError) as error:
        raise damaged(path, f"cannot be read: {error}") from error
    return weights
