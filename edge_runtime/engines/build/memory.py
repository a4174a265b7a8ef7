"""What a build takes of the board's memory, told and checked before it begins."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from edge_runtime.engines.build.contract import Signature
from edge_runtime.engines.build.profiles import Ranges
from edge_runtime.errors import DeviceError

MB = 1 << 20
LARGEST_WORKSPACE = 1024 * MB  # unless the kernels of some tile will not do with it
SMALLEST_WORKSPACE = 32 * MB
# The library and, with a GPU, its context and kernels.
BASE = {"tensorrt": 900 * MB, "tensorrt_rtx": 400 * MB}
# A tile's weights exist as the parsed graph, as the builder's copy and as the plan.
COPIES = 3


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes: of the largest tile's weights and tensors, the workspace, and what is free.

    `least` is the smallest workspace that kernels are expected to do with; it and `tensors`
    grow with `rows`.
    """

    rows: int
    weights: int
    tensors: int
    workspace: int
    least: int
    base: int
    free: int

    @property
    def peak(self) -> int:
        """The most that the build is expected to hold at a time."""
        return self.base + COPIES * self.weights + self.tensors + self.workspace

    def __str__(self) -> str:
        return (
            f"memory: {self.peak // MB} MB at most (library {self.base // MB}, weights "
            f"{COPIES} × {self.weights // MB}, tensors {self.tensors // MB}, workspace "
            f"{self.workspace // MB}) of {self.free // MB} MB free"
        )

    @property
    def larger(self) -> MemoryPlan | None:
        """With a workspace twice as large, or all that is left; None where that is no more."""
        workspace = min(2 * self.workspace, self.workspace + self.free - self.peak)
        return replace(self, workspace=workspace) if workspace > self.workspace else None

    def check(self) -> None:
        """Raises `DeviceError` naming the option that helps, where it cannot fit."""
        if self.peak <= self.free:
            return
        said = f"the build needs about {self.peak // MB} MB, and {self.free // MB} MB are free"
        fixed = self.base + COPIES * self.weights
        for rows in range(self.rows, 0, -1):
            room = self.free - fixed - self.tensors * rows // self.rows
            if room < max(SMALLEST_WORKSPACE, self.least * rows // self.rows):
                continue
            workspace = min(self.workspace, room) // MB
            fewer = f"--rows {rows} " if rows < self.rows else ""
            raise DeviceError(
                said, f"Add {fewer}--workspace-mb {workspace}, or end other programs."
            )
        raise DeviceError(
            said,
            "End other programs, or build on a larger board of the same kind and carry it over "
            "with edge-runtime engines export.",
        )


def plan(
    graphs: Path,
    tiles: Mapping[str, Signature],
    most: Ranges,
    flavour: str,
    free: int,
    workspace: int | None,
) -> MemoryPlan:
    """The plan of building `tiles`, one after the other; `workspace` in bytes, or by default."""
    least = max(_inside(signature, most) for signature in tiles.values()) * 9 // 8
    if workspace is None:
        workspace = max(min(LARGEST_WORKSPACE, free // 4), SMALLEST_WORKSPACE, least)
    return MemoryPlan(
        rows=most["B"].most,
        weights=max((graphs / f"{name}.onnx").stat().st_size for name in tiles),
        tensors=max(_bytes(signature, most) for signature in tiles.values()),
        workspace=workspace,
        least=least,
        base=BASE[flavour],
        free=free,
    )


def _inside(signature: Signature, most: Ranges) -> int:
    """The largest that a tile holds between its ends: logits, or the encoder's attention.

    What lies beside it at the same time was seen to take less than an eighth of it.
    """
    sizes = {letter: each.most for letter, each in most.items()}
    if "next_token" in signature.outputs:
        table = signature.inputs["table"]
        # The logits, and once more in float32: of integers they are in float32 before they are
        # brought to scale.
        size = {1: 8, 2: 6, 4: 4}[table.dtype.itemsize]
        return sizes["B"] * sizes["Q"] * table.sized({})[0] * size
    memory = signature.outputs.get("memory_k_0")
    if memory is None or memory.dtype.itemsize != 4:  # in float16 attention is one kernel
        return 0
    rows, heads, frames, _ = memory.sized(sizes)
    return 2 * rows * heads * frames * frames * 4


def _bytes(signature: Signature, most: Ranges) -> int:
    """All tensors of a tile at its largest shapes."""
    sizes = {letter: each.most for letter, each in most.items()}
    tensors: Iterable[tuple[int, tuple[int, ...]]] = (
        (tensor.dtype.itemsize, tensor.sized(sizes))
        for tensor in (*signature.inputs.values(), *signature.outputs.values())
    )
    return sum(size * math.prod(shape) for size, shape in tensors)
