"""The graphs that an engine is built of: those of the store, or those of a calibrated model."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.engines import variants
from edge_runtime.engines.build import chunked
from edge_runtime.engines.build.contract import Signature, signatures
from edge_runtime.engines.calibrate.scheme import TABLE, Scheme
from edge_runtime.engines.recipe import BuiltRecipe, TransducerRecipe
from edge_runtime.engines.store import Store, graphs_fingerprint
from edge_runtime.engines.variant import INT8, Variant, command
from edge_runtime.errors import ModelMissing, RecipeError

BASE = "fp16"
"""What an engine of 8-bit integers computes all else in."""


@dataclass(frozen=True)
class Source:
    """`recipe` may be cut otherwise than `whole`, that of a CPU; `variant` is for integers."""

    store: Store
    whole: BuiltRecipe
    recipe: BuiltRecipe
    precision: str
    variant: Variant | None = None
    scheme: Scheme | None = None

    @property
    def floats(self) -> str:
        """The precision of what is not in integers."""
        return self.precision if self.variant is None else BASE

    @property
    def digest(self) -> str:
        """The sha256 of the scheme; empty where there is none."""
        return "" if self.variant is None else self.variant.info.scheme

    def fingerprint(self) -> str:
        """Of the graphs; raises as `Store.weights` does."""
        hashes = self.store.hashes(self.recipe).values()
        return graphs_fingerprint(self.recipe, self.precision, hashes, self.digest)

    def signatures(self) -> dict[str, Signature]:
        """The tensors of all tiles.

        Those of a published model stand in its graphs, which are exported for it where they are
        not yet: raises as `Store.graphs`.
        """
        if isinstance(self.recipe, TransducerRecipe):
            return chunked.signatures(self.store.graphs(self.recipe, self.precision))
        table = self.scheme is not None and self.scheme.rounded(TABLE) is not None
        return signatures(self.recipe, self.floats, integer_table=table)

    def prepare(self, progress: Callable[[str, int, int], None]) -> Path:
        """Export what the store keeps, and give the folder of what a CPU runs instead of it.

        Before the store's lock is held. Raises as `Store.graphs`.
        """
        if self.variant is not None:
            return self.variant.folder
        self.store.graphs(self.recipe, self.precision, progress)
        return self.store.graphs(self.whole, progress=progress)

    @contextlib.contextmanager
    def graphs(self) -> Iterator[Path]:
        """The folder of the graphs, as long as the block runs; hold the store's lock.

        Those of integers are written now, in TensorRT's spelling, and gone afterwards.
        """
        if self.scheme is None:
            yield self.store.root / self.recipe.name / self.fingerprint()
            return
        from edge_runtime.engines.calibrate.write import write

        assert not isinstance(self.recipe, TransducerRecipe), "it has no scheme"
        weights = self.store.weights(self.recipe)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=weights.parent) as folder:
            write(self.recipe, weights, self.scheme, Path(folder), "signed", BASE)
            yield Path(folder)


def source(
    store: Store,
    recipe: BuiltRecipe,
    cut: BuiltRecipe,
    precision: str,
    fingerprint: str | None = None,
) -> Source:
    """What an engine of `recipe`, cut as in `cut`, is built of.

    In int8 that is the variant whose fingerprint begins so, or the active one. Raises
    `ModelMissing` where there is none, and as `variants.usable`.
    """
    if isinstance(recipe, TransducerRecipe) and precision != "fp32":
        raise RecipeError(
            f"{recipe.name} is built as it is published", "Leave out --precision, or say fp32."
        )
    if precision != INT8 or isinstance(recipe, TransducerRecipe):
        return Source(store, recipe, cut, precision)
    if fingerprint is None:
        variant = variants.active(store, recipe)
    else:
        found = variants.find(store, recipe.name, fingerprint)
        variant = variants.usable(store, recipe, found.folder.name)
    if variant is None:
        raise ModelMissing(
            f"no calibrated {recipe.name} is active",
            f"Run: {command(recipe.name)}, or name one of edge-runtime engines list by --variant",
        )
    return Source(store, recipe, cut, precision, variant, variant.scheme())
