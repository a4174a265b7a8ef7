"""A variant: a model calibrated to 8-bit integers, what it was made of and how it was judged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edge_runtime.engines import manifest
from edge_runtime.engines.calibrate import scheme as schemes
from edge_runtime.engines.calibrate.scheme import Scheme
from edge_runtime.engines.difference import Difference, differing
from edge_runtime.engines.engine import RECIPE
from edge_runtime.engines.recipe import TiledRecipe
from edge_runtime.engines.store import VARIANT, Store, graphs_fingerprint
from edge_runtime.errors import ModelDamaged, ModelMissing

if TYPE_CHECKING:
    from edge_runtime.engines.calibrate.gate import Verdict

INT8 = "int8"
"""The precision of variants, and of engines built of them."""


class VariantInfo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a variant is of, in `calibration.json`; the same calibration gives the same bytes.

    To be used it must match in `recipe` (its hash), `weights` (sha256 by file name) and `graphs`
    (of all that decides what they are, its `scheme` among them: the variant's fingerprint).
    It was judged on `clips` of `words` words: `wer_increase` in points, its 95 % interval from
    `low` to `high`; None where it was not. `forced` says that it was installed although that
    was refused. `settings` are values that were measured to suit, by "table.key" of the
    configuration.
    """

    model: str
    recipe: str
    weights: dict[str, str]
    scheme: str
    graphs: str
    precision: str = INT8
    forced: bool = False
    wer_increase: float | None = None
    low: float | None = None
    high: float | None = None
    words: int = 0
    clips: int = 0
    transcribed: bool = False
    settings: dict[str, float] = {}

    @property
    def fingerprint(self) -> str:
        """16 hex digits of all that must match: the name of the variant's folder."""
        return self.graphs


@dataclass(frozen=True)
class Variant:
    """A folder of graphs for a CPU with their scheme and report, and what it tells of them."""

    folder: Path
    info: VariantInfo

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(path.stat().st_size for path in self.folder.iterdir())

    def check(self, *, verify: bool = False) -> None:
        """Raises `ModelDamaged` for a file that is gone or changed; hashes only with `verify`."""
        try:
            manifest.checked(self.folder, verify=verify)
        except ModelDamaged as error:
            raise ModelDamaged(error.message, _again(self.info.model)) from error

    def scheme(self) -> Scheme:
        """What its graphs are made by; raises `ModelDamaged` or `ModelMissing`."""
        return schemes.load(self.folder)

    def recipe(self) -> TiledRecipe:
        """The recipe that it was calibrated from; raises `ModelDamaged`."""
        path = self.folder / RECIPE
        try:
            recipe: TiledRecipe = msgspec.json.decode(path.read_bytes(), type=TiledRecipe)
        except (OSError, msgspec.MsgspecError) as error:
            raise ModelDamaged(f"{path}: {error}", _again(self.info.model)) from error
        return recipe


def describe(
    store: Store,
    recipe: TiledRecipe,
    scheme: Scheme,
    verdict: Verdict | None = None,
    *,
    forced: bool = False,
    settings: Mapping[str, float] = {},
) -> VariantInfo:
    """What is to be told of a model of the store in this scheme. Raises as `Store.weights`."""
    hashes, digest = store.hashes(recipe), sha256(scheme)
    judged = None if verdict is None or not verdict.words else verdict
    return VariantInfo(
        model=recipe.name,
        recipe=recipe.hash,
        weights=hashes,
        scheme=digest,
        graphs=graphs_fingerprint(recipe, INT8, hashes.values(), digest),
        forced=forced,
        wer_increase=None if judged is None else judged.increase,
        low=None if judged is None else judged.low,
        high=None if judged is None else judged.high,
        words=0 if verdict is None else verdict.words,
        clips=0 if verdict is None else verdict.clips,
        transcribed=verdict is not None and verdict.transcribed,
        settings=dict(sorted(settings.items())),
    )


def sha256(scheme: Scheme) -> str:
    """Of a scheme's file, in hex."""
    return hashlib.sha256(schemes.encode(scheme)).hexdigest()


def read(folder: Path) -> Variant:
    """The variant in a folder, whole or not.

    Raises `ModelMissing` where there is none, `ModelDamaged` where it tells nothing.
    """
    path = folder / VARIANT
    again = _again(folder.parent.name)
    try:
        return Variant(folder, msgspec.json.decode(path.read_bytes(), type=VariantInfo))
    except FileNotFoundError:
        raise ModelMissing(f"{folder} holds no calibrated model", again) from None
    except (OSError, msgspec.MsgspecError) as error:
        raise ModelDamaged(f"{path}: {error}", again) from error


def differences(store: Store, recipe: TiledRecipe, info: VariantInfo) -> list[Difference]:
    """The fields in which a variant is not of this recipe, these weights and this exporter."""
    try:
        hashes = store.hashes(recipe)
    except (ModelMissing, ModelDamaged):  # it runs without them
        hashes = info.weights
    graphs = graphs_fingerprint(recipe, INT8, hashes.values(), info.scheme)
    return differing(
        {
            "recipe": (recipe.hash, info.recipe),
            "weights": (hashes, info.weights),
            "graphs": (graphs, info.graphs),
        }
    )


def command(model: str) -> str:
    """The line that makes a variant."""
    return f"edge-runtime calibrate {model} --audio DIR"


def _again(model: str) -> str:
    return f"Run: {command(model)}"
