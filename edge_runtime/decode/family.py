"""The families of speech models: what of a folder is loaded, and what drives it.

Whatever the family, updates go in and hypotheses come out.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from edge_runtime.decode.chunked.chain import ChunkChain
from edge_runtime.decode.chunked.runner import ChunkRunner
from edge_runtime.decode.growing.chain import GrowingChain
from edge_runtime.decode.growing.runner import GrowingRunner
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.shape import load_shape
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.device.base import Device

AnyChain = Chain | ChunkChain | GrowingChain
AnyRunner = Runner | ChunkRunner | GrowingRunner


class _Kind(msgspec.Struct):
    kind: str = ""


def open_chain(device: Device, folder: Path) -> AnyChain:
    """The programs of the model in `folder`, whichever family it is of.

    Raises `ModelMissing`, `ModelDamaged` or `DeviceError`.
    """
    kind = load_shape(folder, _Kind).kind
    if kind == "growing":
        return GrowingChain(device, folder)
    return ChunkChain(device, folder) if kind else Chain(device, folder)


def make_runner(chain: AnyChain, size: Size) -> AnyRunner:
    """A lane of the chain; raises `DeviceError` where memory is short."""
    return make_runners(chain, size, 1)[0]


def make_runners(chain: AnyChain, size: Size, lanes: int, slots: int = 0) -> list[AnyRunner]:
    """So many lanes of the chain, with memory for the states of so many streams between them.

    Raises `DeviceError` where memory is short.
    """
    if isinstance(chain, GrowingChain):
        grown = chain.slots(slots, size)
        return [GrowingRunner(chain, size, grown) for _ in range(lanes)]
    if isinstance(chain, ChunkChain):
        kept = chain.slots(slots, size)
        return [ChunkRunner(chain, size, kept) for _ in range(lanes)]
    return [Runner(chain, size) for _ in range(lanes)]
