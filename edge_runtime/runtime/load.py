"""Everything loaded for one model on the best device that takes it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from edge_runtime.audio.vad import VoiceDetector
from edge_runtime.config import Computing
from edge_runtime.decode import proof
from edge_runtime.decode.chunked.shape import ChunkShape
from edge_runtime.decode.family import AnyChain, open_chain
from edge_runtime.decode.growing.shape import GrowingShape
from edge_runtime.decode.reading import Model
from edge_runtime.decode.shape import ModelShape
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.tokens import Vocabulary
from edge_runtime.device import Device, Program, candidates, open_device
from edge_runtime.device.cuda.budget import Budget
from edge_runtime.engines.recipe import SpeechRecipe, load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.engines.variant import Variant
from edge_runtime.errors import DeviceLost, EdgeRuntimeError, RecipeError
from edge_runtime.runtime.files import Finder, Served

DETECTOR = "silero-vad"

_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class Loaded:
    """One model, ready to run: heavy, shared by all sessions.

    `size` is the largest batch that it takes: what was asked for, or as much of it as the
    engine was built for. `fallback` says which devices failed before this one, why, and what helps.
    `kind` is what `open_device` knows the device by.
    """

    name: str
    device: Device
    chain: AnyChain
    model: Model
    detector: Program
    size: Size
    fallback: str | None = None
    languages: tuple[str, ...] = ()
    served: Served = field(default_factory=Served)
    kind: str = ""

    @property
    def on_cpu(self) -> bool:
        """Whether nothing but the CPU is used."""
        return self.device.name == "cpu"

    @property
    def budget(self) -> Budget | None:
        """What was taken of a GPU's memory."""
        return getattr(self.device, "budget", None)

    def warmed(self) -> None:
        """Every lane ran: from here on nothing should be allocated, and what was compiled keeps."""
        if self.budget is not None:
            self.budget.mark_warm()
        save: Callable[[], None] | None = getattr(self.device, "save_caches", None)
        if save is not None:
            save()

    def ear(self, rows: int) -> VoiceDetector:
        """A voice detector for `rows` streams, on the CPU whatever the device.

        It belongs to an audio worker: one small graph for many sessions, whose answer is due
        every 32 ms. On a GPU it would wait for updates, and they for it.
        """
        return VoiceDetector(self.detector, open_device("cpu"), rows)


class Loader:
    """Loads one model on the first of its devices that takes it; goes on when one fails."""

    def __init__(
        self,
        model: str | Path,
        device: str = "auto",
        size: Size | None = None,
        *,
        least: Size | None = None,
        computing: Computing | None = None,
        threads: int = 1,
        store: Store | None = None,
        trial: Variant | None = None,
    ) -> None:
        """`size` is the largest batch that is wanted, `least` what will do (default: all of it).

        A device that is named is the only one, and so is a variant on `trial`.

        Raises `ConfigError` for an unknown device, `RecipeError` for a name that is no speech
        model.
        """
        recipe = load_recipe(model)
        if not isinstance(recipe, SpeechRecipe):
            raise RecipeError(f"{recipe.name} turns no speech into text", "Choose a speech model.")
        self._recipe = recipe
        self._all = self._names = list(candidates(device))
        self._size = size or Size(1, 1)
        self._computing = computing or Computing()
        self._threads = threads
        self._store = store or Store()
        self._finder = Finder(
            self._store, recipe, self._computing, self._size, least or self._size, trial
        )
        self._failed: dict[str, str] = {}

    def load(self) -> Loaded:
        """The model on the first device that takes it; a warning for each that does not.

        Raises, for the last one, `ModelMissing` where the model was never pulled or built,
        `ModelDamaged`, `EngineMismatch`, `MissingExtra` or `DeviceError`.
        """
        while True:
            try:
                return self._on(self._names[0])
            except EdgeRuntimeError as error:
                self._leave(error)

    def following(self, loaded: Loaded, error: EdgeRuntimeError) -> Loaded:
        """The model on the next device, once `error` showed that it does not run on this one.

        A GPU that is lost takes all that is on it along: the CPU is next then. Raises `error`
        where no other device may be used, or what `load` raises.
        """
        self._leave(error)
        if not isinstance(error, DeviceLost):
            _let_go(error)
            loaded.device.close()
        return self.load()

    @property
    def next(self) -> str | None:
        """The device after this one, if there is any."""
        return self._names[1] if len(self._names) > 1 else None

    def beside(self, error: EdgeRuntimeError) -> Loaded:
        """The model on the next device, while this one stays open.

        Raises what `load` raises; then this one is the first still.
        """
        before = self._names, dict(self._failed)
        try:
            self._leave(error)
            return self.load()
        except EdgeRuntimeError:
            self._names, self._failed = before
            raise

    def back(self, loaded: Loaded) -> None:
        """The device that others were loaded `beside` is the first again."""
        at = self._all.index(loaded.kind)
        self._names = self._all[at:]
        self._failed = {name: why for name, why in self._failed.items() if name in self._all[:at]}

    def made(self, loaded: Loaded, make: Callable[[Loaded], T]) -> tuple[Loaded, T]:
        """What `make` gives, from this device or from the first of the following that can."""
        while True:
            try:
                return loaded, make(loaded)
            except EdgeRuntimeError as error:
                loaded = self.following(loaded, error)

    def fallback(self, name: str) -> str | None:
        """Which devices failed before `name`, why, and what helps."""
        return f"{name} is used. {'; '.join(self._failed.values())}" if self._failed else None

    def _leave(self, error: EdgeRuntimeError) -> None:
        """Strike out the first device, which failed; raises `error` where it was the last."""
        failed, *rest = self._names
        if isinstance(error, DeviceLost):
            rest = [name for name in rest if name == "cpu"]
        if not rest:
            raise error
        self._names = rest
        self._failed[failed] = f"{failed}: {error}"
        _log.warning("%s cannot be used, %s is next: %s", failed, rest[0], error)

    def _on(self, name: str) -> Loaded:
        device = open_device(name, self._computing, self._threads)
        try:
            files = self._finder.on(name, device)
            chain = open_chain(device, files.folder)
            if name.startswith("onnx-"):
                cpu = open_chain(open_device("cpu"), files.folder)
                proof.prove(chain, proof.answers(cpu, files.size.samples))
            elif name != "cpu":
                proof.prove(chain, proof.read(files.folder))
            model = Model(
                chain.shape,
                Vocabulary.load(files.folder),
                self._recipe.languages,
            )
            detector = open_device("cpu").load(self._detector(files.folder))
        except EdgeRuntimeError as error:
            if not isinstance(error, DeviceLost):
                _let_go(error)
                device.close()
            raise
        return Loaded(
            self._recipe.name,
            device,
            chain,
            model,
            detector,
            _bounded(files.size, chain.shape),
            self.fallback(name),
            self._recipe.languages,
            files.served,
            name,
        )

    def _detector(self, folder: Path) -> Path:
        """An engine brings its own: a board may have been given that alone."""
        own = folder / "vad.onnx"
        return own if own.is_file() else self._store.graphs(load_recipe(DETECTOR)) / "vad.onnx"


def _bounded(size: Size, shape: ModelShape | ChunkShape | GrowingShape) -> Size:
    """The size, of no more audio than the model hears at once."""
    most = shape.most if isinstance(shape, ModelShape) else 0
    return Size(size.rows, min(size.samples, most or size.samples))


def _let_go(error: BaseException) -> None:
    """Empty the frames that an error came through: arrays there keep a GPU's context open."""
    each: BaseException | None = error
    while each is not None:
        traceback.clear_frames(each.__traceback__)
        each = each.__cause__ or each.__context__
