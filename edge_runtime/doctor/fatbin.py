"""Which GPUs a library has kernels for, read from where nvcc puts them, without NVIDIA's tools."""

from __future__ import annotations

import struct
from mmap import mmap
from pathlib import Path
from typing import NamedTuple

from edge_runtime.doctor.elf import Elf

Capability = tuple[int, int]

SECTION = ".nv_fatbin"
MAGIC = 0xBA55ED50
HEADER = struct.Struct("<IHHQ")  # magic, version, its own size, size of the images that follow
IMAGE = struct.Struct("<HHIQ12xI8xQ")  # kind, _, its own size, size, architecture, flags
PTX, CUBIN = 1, 2
ALONE = 1 << 20
"""The flag of code for one architecture and none that follows: `sm_90a`."""


class Kernels(NamedTuple):
    """Compute capabilities that there is code for: `cubins` as it runs, `ptx` to be compiled.

    `alone` is code of either kind that runs on this one capability and no later one.
    """

    cubins: tuple[Capability, ...]
    ptx: tuple[Capability, ...]
    alone: tuple[Capability, ...]


def kernels(path: Path) -> Kernels:
    """What a library holds for GPUs; raises `ValueError` and `OSError` as `Elf`.

    The layout of a fat binary is not documented: it was held against what `cuobjdump --list-elf`
    says of onnxruntime-gpu 1.31.1, which names the same architectures, those with an `a` too.
    """
    found: dict[int, set[Capability]] = {PTX: set(), CUBIN: set(), ALONE: set()}
    with Elf(path) as elf:
        place = elf.section(SECTION)
        if place is not None:
            at, end = place[0], min(sum(place), len(elf.data))
            while at + HEADER.size <= end:
                at = _one(elf.data, at, end, found)
    return Kernels(*(tuple(sorted(found[kind])) for kind in (CUBIN, PTX, ALONE)))


def _one(data: mmap, at: int, end: int, found: dict[int, set[Capability]]) -> int:
    """Read one fat binary; gives where the next may begin: they lie at multiples of 8 bytes."""
    magic, _, own, size = HEADER.unpack_from(data, at)
    if magic != MAGIC or own < HEADER.size:
        return at + 8
    image, stop = at + own, min(at + own + size, end)
    while image + IMAGE.size <= stop:
        kind, _, header, length, architecture, flags = IMAGE.unpack_from(data, image)
        if header < IMAGE.size:
            break
        if kind in (PTX, CUBIN):
            found[ALONE if flags & ALONE else kind].add(divmod(architecture, 10))
        image += header + length
    return int(at + own + size + (-(own + size) % 8))
