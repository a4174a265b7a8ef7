"""Whether there is memory for one more model beside those that serve: an estimate, on purpose high.

Where the estimate is wrong, the device says so while it loads, and those that serve go on.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.config import Config
from edge_runtime.decode.tiles import Size
from edge_runtime.device import Device
from edge_runtime.device.cuda.card import available
from edge_runtime.engines.recipe import SpeechRecipe, load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import DeviceError, MemoryShort, RecipeError
from edge_runtime.runtime.files import Finder
from edge_runtime.runtime.load import Loaded
from edge_runtime.session import longest, shortest

WORKING = 200 << 20
"""Bytes that a lane works in on a CPU, at least. As a second model with two lanes (x86, float32,
2026-11-30), Moonshine Tiny with 106 MiB of graphs took 350 MiB, Whisper base with 279 took 920."""

ON_GPU = 200 << 20
"""Bytes beside its plans that one more model takes of a GPU: working memory of its lanes and their
graphs. Moonshine Tiny's took 170 MB on an H200, and its driver's 220 MB were there already."""


@dataclass(frozen=True)
class Room:
    """Bytes that a model needs, and those that are free where it goes; None: nobody says.

    `cap`: the settings bound what may be taken, and `free` is what is left of that.
    """

    need: int
    free: int | None
    where: str
    cap: bool = False

    def check(self, model: str) -> None:
        """Raises `MemoryShort` where there is not enough."""
        if self.free is None or self.need <= self.free:
            return
        left = "are left of memory_mb" if self.cap else "are free"
        raise MemoryShort(
            f"{model} needs about {_mb(self.need)} of {self.where}, and {_mb(self.free)} {left}",
            "Unload another (edge-runtime models unload NAME), or end what else takes memory.",
        )


def room(
    store: Store, model: str | Path, config: Config, steady: Loaded, others: list[Loaded]
) -> Room:
    """For one more model beside `steady`, the default, and `others`.

    It is looked for on the device of the default; where that does not take it, as on a CPU, which
    is next then. Raises `ModelMissing` or `ModelDamaged` for a model that is not there whole.
    """
    on_cpu = steady.on_cpu
    try:
        folder = _folder(store, model, config, steady.kind, steady.device)
    except DeviceError:  # there is no engine of it, and which device is next, loading will show
        on_cpu = True
        folder = _folder(store, model, config, "cpu", steady.device)
    files = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    if on_cpu:
        lanes = config.computing.lanes or len(os.sched_getaffinity(0))
        return Room(files * 6 // 5 + lanes * max(files * 5 // 4, WORKING), available(), "memory")
    driver = getattr(steady.device, "driver", None)
    free = None if driver is None else driver.free()[0]
    cap = config.computing.memory_mb << 20
    if cap:
        budgets = [each.budget for each in (steady, *others)]
        left = cap - sum(budget.taken for budget in budgets if budget is not None)
        free = max(0, left if free is None else min(left, free))
    return Room(files + ON_GPU, free, "the GPU's memory", bool(cap))


def _folder(store: Store, model: str | Path, config: Config, kind: str, device: Device) -> Path:
    recipe = load_recipe(model)
    if not isinstance(recipe, SpeechRecipe):
        raise RecipeError(f"{recipe.name} turns no speech into text", "Choose a speech model.")
    most, least = Size(1, longest(config)), Size(1, shortest(config))
    return Finder(store, recipe, config.computing, most, least).on(kind, device).folder


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
