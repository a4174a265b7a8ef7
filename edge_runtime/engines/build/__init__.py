"""From a model's graphs to an engine of TensorRT: one plan a tile, sealed in the store."""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from edge_runtime.decode import proof
from edge_runtime.decode.family import open_chain
from edge_runtime.device import open_device
from edge_runtime.device.cuda import open_driver
from edge_runtime.device.tensorrt.module import TensorRT, find_tensorrt
from edge_runtime.engines import manifest, plans, weights
from edge_runtime.engines.board import Board, board
from edge_runtime.engines.build.contract import Signature
from edge_runtime.engines.build.memory import MB, MemoryPlan, plan
from edge_runtime.engines.build.profiles import Ranges, profiles, ranges
from edge_runtime.engines.build.source import Source, source
from edge_runtime.engines.build.tile import Current, Timings, Work, WorkspaceTooSmall, build_tile
from edge_runtime.engines.build.watch import UNWATCHED, Watch
from edge_runtime.engines.engine import PORTABLE, RECIPE, EngineInfo
from edge_runtime.engines.export import PRECISIONS
from edge_runtime.engines.export.moonshine import encode, step
from edge_runtime.engines.plans import ROWS, SAMPLES
from edge_runtime.engines.recipe import AnyRecipe, BuiltRecipe, MoonshineRecipe, load_recipe
from edge_runtime.engines.store import ENGINE, Store
from edge_runtime.engines.variant import INT8
from edge_runtime.errors import ConfigError, DeviceError, ModelDamaged, RecipeError

_log = logging.getLogger(__name__)

__all__ = ["BuildOptions", "MemoryPlan", "Watch", "build"]


@dataclass(frozen=True)
class BuildOptions:
    """How to build. `workspace_mb` None: what suits the board; `split` None: as the recipe.

    `index` is the number of the GPU that TensorRT builds for and on; TensorRT-RTX needs none.
    `rows` and `samples` (16 kHz) are the largest batch and the longest row. An engine in int8 is
    built of the calibrated model whose fingerprint begins as `variant`, or of the active one.
    """

    precision: str = "fp16"
    tensorrt: str = "auto"
    index: int = 0
    workspace_mb: int | None = None
    split: tuple[int, ...] | None = None
    rows: int = ROWS
    samples: int = SAMPLES
    again: bool = False
    variant: str | None = None

    def __post_init__(self) -> None:
        known = (INT8, *PRECISIONS)
        if self.precision not in known:
            raise ConfigError(
                f"unknown precision {self.precision!r}", f"Use {' or '.join(sorted(known))}."
            )
        if self.variant is not None and self.precision != INT8:
            raise ConfigError(
                f"--variant is given, and the precision is {self.precision}",
                f"Add --precision {INT8}.",
            )
        if not 1 <= self.rows <= 64:
            raise ConfigError(f"--rows is {self.rows}", "Choose one from 1 to 64.")
        if self.workspace_mb is not None and not 1 <= self.workspace_mb <= 1 << 20:
            raise ConfigError(
                f"--workspace-mb is {self.workspace_mb}", "Choose one from 1 to 1048576."
            )


def build(
    recipe: AnyRecipe,
    store: Store,
    options: BuildOptions = BuildOptions(),
    watch: Watch = UNWATCHED,
) -> Path:
    """The folder of the model's engine, built now where the store has none like it.

    Two builders of one model take turns; the second finds the work done. An interrupted
    build leaves nothing behind.
    Raises `ModelMissing`, `ModelDamaged` and `StoreUnwritable` as the store does,
    `MissingExtra` without TensorRT, `DeviceError` for what does not build or fit, `RecipeError`
    for a split that does not add up or a model that is no speech model, and `EngineMismatch` for
    a calibrated model that is not of this recipe and these weights.
    """
    if not isinstance(recipe, BuiltRecipe):
        raise RecipeError(f"{recipe.name} runs on the CPU", "Build an engine of a speech model.")
    cut = plans.split(recipe, options.split)
    tensorrt, here = find_tensorrt(options.tensorrt), board(options.index)
    of = source(store, recipe, cut, options.precision, options.variant)
    return _Job(of, options, tensorrt, here, watch).run()


class _Job:
    """One build: what it is of, what it is for."""

    def __init__(
        self,
        source: Source,
        options: BuildOptions,
        tensorrt: TensorRT,
        here: Board,
        watch: Watch,
    ) -> None:
        self.source, self.options = source, options
        self.recipe, self.store = source.recipe, source.store
        self.tensorrt, self.here, self.watch = tensorrt, here, watch
        self.tiles: dict[str, Signature] = source.signatures()
        self.most: Ranges = ranges(self.recipe, options.rows, options.samples)
        self.info = self._info()
        self.place = self.store.root / self.recipe.name / self.info.fingerprint

    def run(self) -> Path:
        began = time.time()
        if not self.options.again and self._whole():
            self.watch.found(self.place)
            return self.place
        # Before the lock: the store takes one for these, too.
        reference = self.source.prepare(self.watch.exporting)
        detectors = [self.store.graphs(load_recipe(name)) for name in self.recipe.requires]
        with self.store.lock(self.recipe.name, self.watch.waiting):
            # Another process may have built it while this one waited.
            if self._whole() and not (self.options.again and self._built() < began):
                self.watch.found(self.place)
                return self.place
            said = f"built with {self.tensorrt.flavour} {self.tensorrt.version}"
            with self.store.replacing(self.place, said) as new, self.source.graphs() as graphs:
                memory = self._plans(graphs, new, self._planned(graphs))
                self._companions(graphs, detectors, new)
                self._prove(reference, new)
                self._seal(new, memory, began)
        return self.place

    def _planned(self, graphs: Path) -> MemoryPlan:
        options = self.options
        workspace = None if options.workspace_mb is None else options.workspace_mb * MB
        memory = plan(
            graphs, self.tiles, self.most, self.tensorrt.flavour, self.here.free, workspace
        )
        self.watch.planned(memory)
        memory.check()
        return memory

    def _plans(self, graphs: Path, new: Path, memory: MemoryPlan) -> MemoryPlan:
        """Builds all tiles; gives the memory that it took in the end."""
        timings = self._timings()
        kept = Timings(timings.read_bytes() if timings.is_file() else b"")
        with self._gpu() as current:
            for name in self.tiles:
                memory = self._tile(name, graphs, new, memory, kept, current)
        if kept.content:
            part = timings.with_suffix(".part")
            part.write_bytes(kept.content)
            part.rename(timings)
        return memory

    @contextlib.contextmanager
    def _gpu(self) -> Iterator[Current]:
        """What makes a thread work on the GPU that was chosen, where one is needed."""
        if self.info.target == (PORTABLE,):
            yield contextlib.nullcontext
            return
        driver = open_driver(self.options.index)
        try:
            yield driver.current
        finally:
            driver.close()

    def _tile(
        self, name: str, graphs: Path, new: Path, memory: MemoryPlan, kept: Timings,
        current: Current,
    ) -> MemoryPlan:  # fmt: skip
        """Builds one, in a larger workspace if it must be and nobody said how large it is."""
        signature = self.tiles[name]

        def advanced(done: float) -> None:
            self.watch.advanced(name, done)

        advanced(0.0)
        try:
            made = build_tile(
                Work(self.tensorrt, memory.workspace, kept, current),
                graphs / f"{name}.onnx",
                signature,
                profiles(signature, self.most, self.tensorrt.flavour),
                advanced,
            )
        except WorkspaceTooSmall as error:
            larger = memory.larger if self.options.workspace_mb is None else None
            if larger is None:
                raise
            _log.info("%s: %d MB are tried", error.message, larger.workspace // MB)
            return self._tile(name, graphs, new, larger, kept, current)
        with (new / f"{name}.plan").open("wb") as file:
            file.write(memoryview(made))
        return memory

    def _companions(self, graphs: Path, detectors: list[Path], new: Path) -> None:
        """All that a board needs besides the plans to serve without the weights."""
        for name in ("table.npy", "shape.json", "vocabulary.json"):
            if (graphs / name).is_file():  # a transducer's table is in its graphs
                shutil.copyfile(graphs / name, new / name)
        for folder in detectors:
            for graph in folder.glob("*.onnx"):
                shutil.copyfile(graph, new / graph.name)
        _write(new / RECIPE, self.recipe)
        # Kernels of our own compute in floating point, and one architecture.
        if self.source.variant is not None or not isinstance(self.recipe, MoonshineRecipe):
            return
        arrays = weights.read(self.recipe, self.store.weights(self.recipe))
        step.write(self.recipe, arrays, new, PRECISIONS[self.options.precision])
        if self.options.precision == "fp16":
            encode.write(self.recipe, arrays, new)

    def _prove(self, reference: Path, new: Path) -> None:
        """Note what a CPU says, so that a GPU which says something else is found out."""
        cpu = open_chain(open_device("cpu"), reference)
        proof.write(proof.answers(cpu, self.options.samples), new)

    def _seal(self, new: Path, memory: MemoryPlan, began: float) -> None:
        now = datetime.now(timezone.utc)
        info = msgspec.structs.replace(
            self.info,
            built=now.isoformat(timespec="seconds"),
            seconds=round(now.timestamp() - began, 1),
            workspace_mb=memory.workspace // MB,
        )
        _write(new / ENGINE, info)

    def _info(self) -> EngineInfo:
        options, here, variant = self.options, self.here, self.source.variant
        if self.tensorrt.flavour == "tensorrt_rtx":
            target = PORTABLE
        elif here.capability is None:
            raise DeviceError(
                f"tensorrt builds for the GPU that it runs on: {here.trouble or 'there is none'}",
                "Build on the board itself, or use --tensorrt tensorrt_rtx.",
            )
        else:
            target = "{}.{}".format(*here.capability)
        return EngineInfo(
            model=self.recipe.name,
            recipe=self.recipe.hash,
            weights=self.store.hashes(self.recipe),
            graphs=self.source.fingerprint(),
            precision=options.precision,
            scheme=self.source.digest,
            variant="" if variant is None else variant.info.fingerprint,
            forced=variant is not None and variant.info.forced,
            settings={} if variant is None else variant.info.settings,
            split=self.recipe.decoder_tiles,
            tensorrt=self.tensorrt.flavour,
            version=self.tensorrt.version,
            target=(target,),
            rows=options.rows,
            samples=options.samples,
            queries=self.most["Q"].most,
            gpu=here.gpu,
            l4t=here.l4t,
            driver=here.driver,
            host=here.host,
        )

    def _timings(self) -> Path:
        name = f"{self.tensorrt.flavour}-{self.tensorrt.version}.timings"
        return self.store.root / self.recipe.name / name

    def _whole(self) -> bool:
        if not (self.place / manifest.FILE).is_file():
            return False
        try:
            manifest.checked(self.place)
        except ModelDamaged:
            return False
        return True

    def _built(self) -> float:
        """When the engine that is there was completed."""
        return (self.place / manifest.FILE).stat().st_mtime


def _write(path: Path, record: Any) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
