"""The forms of a model that are compared, each a folder of graphs that a CPU runs."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from edge_runtime.engines import variants
from edge_runtime.engines import weights as readers
from edge_runtime.engines.calibrate.scheme import TABLE, Product, Scheme
from edge_runtime.engines.calibrate.write import floats, write
from edge_runtime.engines.recipe import MoonshineRecipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import ModelMissing

FLOAT = "float32"
PUBLISHED = "published"

ROWS = {
    FLOAT: "what all else is held against",
    "int8": "the calibrated variant: integer products",
    "int8-weights": "all weights in 8 bits, one scale a channel; products in float32",
    "int8-blocks": "8-bit weights by blocks of 32, activations rounded as they come (MatMulNBits)",
    "int4-blocks": "4-bit weights by blocks of 32, activations rounded as they come (MatMulNBits)",
    "int4-weights": "4-bit weights by blocks of 32, products in float32 (MatMulNBits)",
    PUBLISHED: "the int8 graphs that the model's publisher ships",
}

BLOCK = 32
_FLOAT32, _INT8 = 1, 4  # what MatMulNBits computes in: its `accuracy_level`


@dataclass(frozen=True)
class Form:
    """A row that can be measured; `bytes` are of its graphs and table."""

    name: str
    folder: Path
    bytes: int


class Forms:
    """Makes them, in a folder of its own."""

    def __init__(
        self, store: Store, recipe: MoonshineRecipe, out: Path, variant: Path | None = None
    ) -> None:
        self._store, self._recipe, self._out = store, recipe, out
        self._variant = variant
        self._weights = store.weights(recipe)

    def __call__(self, name: str) -> Form:
        """The form of that name. Raises `ModelMissing` where there is nothing to make it of."""
        make: dict[str, Callable[[], Path]] = {
            FLOAT: lambda: self._store.graphs(self._recipe),
            PUBLISHED: lambda: self._weights,
            "int8": self._calibrated,
            "int8-weights": self._rounded,
            "int8-blocks": lambda: self._blocks("int8-blocks", 8, _INT8),
            "int4-blocks": lambda: self._blocks("int4-blocks", 4, _INT8),
            "int4-weights": lambda: self._blocks("int4-weights", 4, _FLOAT32),
        }
        folder = make[name]()
        kinds = (".ort",) if name == PUBLISHED else (".onnx", ".npy")
        size = sum(path.stat().st_size for path in folder.iterdir() if path.suffix in kinds)
        return Form(name, folder, size)

    def _calibrated(self) -> Path:
        if self._variant is not None:
            return self._variant
        active = variants.active(self._store, self._recipe)
        if active is None:
            raise ModelMissing(
                f"no calibrated {self._recipe.name} is active",
                f"Run: edge-runtime calibrate {self._recipe.name} --audio DIR, or use --variant",
            )
        return active.folder

    def _rounded(self) -> Path:
        return self._written("int8-weights", list(self._products))

    @cached_property
    def _products(self) -> dict[str, NDArray[np.float32]]:
        return floats(self._recipe, readers.read(self._recipe, self._weights)).weights

    def _blocks(self, name: str, bits: int, accuracy: int) -> Path:
        """Matrices by blocks; convolutions and the table, which are none, in 8 bits a channel."""
        from onnxruntime.quantization.matmul_nbits_quantizer import (
            DefaultWeightOnlyQuantConfig,
            MatMulNBitsQuantizer,
        )

        logging.getLogger("onnxruntime.quantization").setLevel(logging.WARNING)
        others = [each for each, weight in self._products.items() if weight.ndim > 2]
        folder = self._written(name, [TABLE, *others])
        for path in folder.glob("*.onnx"):
            model = onnx.load(path, load_external_data=False)  # the table lies beside it, once
            # The quantiser's own arguments are others in each release.
            quantiser = MatMulNBitsQuantizer(
                model,
                algo_config=DefaultWeightOnlyQuantConfig(
                    BLOCK, is_symmetric=True, accuracy_level=accuracy, bits=bits
                ),
            )
            quantiser.process()
            onnx.save(quantiser.model.model, str(path))
        return folder

    def _written(self, name: str, rounded: Sequence[str]) -> Path:
        folder = self._out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        scheme = Scheme(products=dict.fromkeys(rounded, Product()))
        write(self._recipe, self._weights, scheme, folder, "unsigned")
        return folder
