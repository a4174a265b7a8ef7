"""The files of a model that a device runs: calibrated where that is wanted, else in full."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from edge_runtime.config import Computing, Config, suited
from edge_runtime.decode.tiles import Size
from edge_runtime.device import Device
from edge_runtime.engines.board import board
from edge_runtime.engines.engine import Engine
from edge_runtime.engines.form import Form, form
from edge_runtime.engines.plans import ROWS, Wanted, find, warnings
from edge_runtime.engines.recipe import MoonshineStreamingRecipe, SpeechRecipe, StreamingRecipe
from edge_runtime.engines.store import Store
from edge_runtime.engines.variant import INT8, Variant, command
from edge_runtime.errors import (
    DeviceError,
    EdgeRuntimeError,
    EngineMismatch,
    ModelDamaged,
    ModelMissing,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Served:
    """What a model is computed in: `precision`, and for "int8" the fingerprint of the `variant`.

    `forced` says that it was installed although the gate refused it; `unused` why the active
    variant is not what serves, and what helps. `settings` were measured to suit, by "table.key".
    """

    precision: str = "fp32"
    variant: str | None = None
    forced: bool = False
    unused: str | None = None
    settings: Mapping[str, float] = field(default_factory=dict)

    def labels(self, model: str) -> tuple[str, str, str, str]:
        """How figures name a model in this form."""
        return model, self.precision, self.variant or "", str(self.forced).lower()

    def suited(self, config: Config) -> Config:
        """`config` with the `settings` that nobody gave a value; raises `ConfigError`."""
        return suited(config, self.settings, f"calibrated model {self.variant}")

    def tell(self, config: Config) -> None:
        """Log which `settings` are used, and which ones the configuration overrules."""
        for name, value in self.settings.items():
            if name in config.given:
                _log.info("%s stays as configured; calibrating found %g", name, value)
            else:
                _log.info("%s is %g: calibrating found it", name, value)


@dataclass(frozen=True)
class Files:
    """A folder that a device loads, and `size`, the largest batch that it takes."""

    folder: Path
    size: Size
    served: Served


class Finder:
    """Finds the files of one model for one device after the other."""

    def __init__(
        self,
        store: Store,
        recipe: SpeechRecipe,
        computing: Computing,
        size: Size,
        least: Size,
        trial: Variant | None = None,
    ) -> None:
        """`size` is the largest batch that is wanted, `least` what will do.

        With a variant on `trial` that is it, or nothing.
        """
        self._store, self._recipe, self._computing = store, recipe, computing
        self._size, self._least = size, least
        self._trial = trial

    def on(self, name: str, device: Device) -> Files:
        """What the device called `name` runs; warns where it is not what was calibrated.

        Raises `ModelMissing`, `ModelDamaged`, `EngineMismatch` or `DeviceError`.
        """
        files = self._engine(device) if name == "tensorrt" else self._graphs(name)
        if files.served.unused is not None:
            _log.warning("the calibrated model is not used: %s", files.served.unused)
        if files.served.forced:
            _log.warning(
                "%s %s serves although its gate refused it: it was forced",
                self._recipe.name,
                files.served.variant,
            )
        return files

    def _form(self, full: str) -> Form:
        if self._trial is not None:
            return Form(INT8, self._trial)
        if isinstance(self._recipe, StreamingRecipe):
            return Form("fp32")  # as published: its exporter chose
        return form(self._store, self._recipe, self._computing.precision, full)

    def _graphs(self, name: str) -> Files:
        """Of those that onnxruntime runs; in floating point a CPU computes in float32."""
        chosen = self._form("fp32" if name == "cpu" else "fp16")
        if chosen.precision == INT8 and name != "cpu":
            chosen = chosen.fallen(
                DeviceError(
                    f"{name} computes in floating point",
                    "Use --device tensorrt or cpu, or set [computing] precision to fp16.",
                )
            )
        if chosen.precision != INT8:
            precision = "fp32" if name == "cpu" else chosen.precision
            folder = self._store.graphs(self._recipe, precision)
            return Files(folder, self._size, Served(precision, unused=chosen.unused))
        if chosen.variant is None:
            raise ModelMissing(
                f"no calibrated {self._recipe.name} is active",
                f"Run: {command(self._recipe.name)}",
            )
        info = chosen.variant.info
        served = Served(INT8, info.fingerprint, info.forced, settings=info.settings)
        return Files(chosen.variant.folder, self._size, served)

    def _engine(self, device: Device) -> Files:
        """Of those that TensorRT runs."""
        if isinstance(self._recipe, MoonshineStreamingRecipe):
            raise EngineMismatch(
                f"{self._recipe.name} has no engine: it runs as it is published",
                "Use --device onnx-cuda, onnx-tensorrt or cpu.",
            )
        from edge_runtime.device.tensorrt.device import TensorRTDevice

        assert isinstance(device, TensorRTDevice)
        library, capability = device.tensorrt, device.driver.capability

        def found(form: Form) -> Engine:
            named = self._trial is not None
            return self._fitting(
                form.wanted(library.flavour, library.version, capability, named=named)
            )

        chosen, engine = _first(self._form("fp16"), found)
        info = engine.info
        for line in warnings(info, board(device.driver)):
            _log.warning("%s", line)
        most = replace(
            self._size,
            rows=min(self._size.rows, info.rows),
            samples=min(self._size.samples, info.samples),
        )
        told = info if chosen.variant is None else chosen.variant.info
        served = Served(
            info.precision, info.variant or None, told.forced, chosen.unused, told.settings
        )
        return Files(engine.folder, most, served)

    def _fitting(self, wanted: Wanted) -> Engine:
        """One that takes all that is asked for, else, with a warning, one that will do.

        Where nobody asked for so many rows, all there are will do.
        """
        wish, will_do = (
            replace(wanted, rows=size.rows, samples=size.samples)
            for size in (self._size, self._least)
        )
        if not self._computing.batch:
            wish = replace(wish, rows=min(wish.rows, ROWS))
        recipe = self._recipe
        assert not isinstance(recipe, MoonshineStreamingRecipe), "there are no engines of it"
        try:
            return find(self._store, recipe, wish)
        except (EngineMismatch, ModelDamaged) as error:
            if will_do == wish:
                raise
            try:
                engine = find(self._store, recipe, will_do)
            except EdgeRuntimeError:
                raise error from None
            _log.warning("the engine is used as far as it goes: %s", error)
            return engine


def _first(wish: Form, found: Callable[[Form], Engine]) -> tuple[Form, Engine]:
    """The engine in the form that is wanted, else in full precision where that is an answer."""
    try:
        return wish, found(wish)
    except (EngineMismatch, ModelDamaged, ModelMissing) as error:
        full = wish.fallen(error)
        try:
            return full, found(full)
        except EdgeRuntimeError:
            raise error from None
