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
IMAGE = struct.Struct("<HHIQIIHHI")  # kind, _, its own size, size, _, _, minor, major, architecture
PTX, CUBIN = 1, 2


class Kernels(NamedTuple):
    """Compute capabilities that there is code for: `cubins` as it runs, `ptx` to be compiled.

    Of an architecture that is for one GPU alone (`sm_90a`) the number is kept, not the letter.
    """

    cubins: tuple[Capability, ...]
    ptx: tuple[Capability, ...]


def kernels(path: Path) -> Kernels:
    """What a library holds for GPUs; raises `ValueError` and `OSError` as `Elf`.

    The layout of a fat binary is not documented; `cuobjdump --list-elf` and `--list-ptx` name the
    same architectures for the libraries that this was held against.
    """
    found: dict[int, set[Capability]] = {PTX: set(), CUBIN: set()}
    with Elf(path) as elf:
        place = elf.section(SECTION)
        if place is not None:
            at, end = place[0], min(sum(place), len(elf.data))
            while at + HEADER.size <= end:
                at = _one(elf.data, at, end, found)
    return Kernels(tuple(sorted(found[CUBIN])), tuple(sorted(found[PTX])))


def _one(data: mmap, at: int, end: int, found: dict[int, set[Capability]]) -> int:
    """Read one fat binary; gives where the next may begin: they lie at multiples of 8 bytes."""
    magic, _, own, size = HEADER.unpack_from(data, at)
    if magic != MAGIC or own < HEADER.size:
        return at + 8
    image, stop = at + own, min(at + own + size, end)
    while image + IMAGE.size <= stop:
        kind, _, header, length, _, _, _, _, architecture = IMAGE.unpack_from(data, image)
        if header < IMAGE.size:
            break
        if kind in found:
            found[kind].add(divmod(architecture, 10))
        image += header + length
    return int(at + own + size + (-(own + size) % 8))
