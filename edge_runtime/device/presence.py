"""Whether this machine has a GPU of NVIDIA's, told from its device files alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

NODES = ("nvidia[0-9]*", "nvhost-gpu", "nvgpu/*", "dxg")
"""A card's, two of Jetson's, and that of a Linux inside Windows."""


def has_gpu(root: Path = Path("/dev"), environ: Mapping[str, str] | None = None) -> bool:
    """True also where its driver does not work: then that is an error, and is said.

    False where `CUDA_VISIBLE_DEVICES` hides all there are.
    """
    visible = (os.environ if environ is None else environ).get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1"):
        return False
    return any(next(root.glob(pattern), None) is not None for pattern in NODES)
