"""The variants of the store: put in whole, and which one serves, is on trial, served before.

`<root>/<model>/<fingerprint>/` holds the graphs that a CPU runs, the scheme that they and int8
engines are made by, the report, and `calibration.json`, which tells such a folder from others.
`<root>/<model>/active.json` says which one serves: a running server goes on with what it began
with.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from edge_runtime.engines import choice, manifest
from edge_runtime.engines.calibrate.scheme import FILE as SCHEME
from edge_runtime.engines.choice import Choice
from edge_runtime.engines.engine import RECIPE
from edge_runtime.engines.recipe import TiledRecipe, load_recipe
from edge_runtime.engines.store import VARIANT, Store
from edge_runtime.engines.variant import Variant, VariantInfo, command, differences, read
from edge_runtime.errors import (
    CalibrationError,
    ConfigError,
    EngineMismatch,
    ModelDamaged,
    ModelMissing,
    RecipeError,
)

_NEEDED = (
    "encoder.onnx", "embedding.onnx", "table.npy", "shape.json", "vocabulary.json", SCHEME,
)  # fmt: skip


def install(
    store: Store,
    recipe: TiledRecipe,
    info: VariantInfo,
    fill: Callable[[Path], None],
    *,
    candidate: bool,
) -> Path:
    """The folder of a new variant, put into the store whole or not at all, and chosen.

    `fill` gets an empty folder and writes the graphs for a CPU (`calibrate.write`, "unsigned"),
    their scheme and the report, all side by side; the store is locked meanwhile. A `candidate`
    serves a share of sessions where the server is told so, else it is active from the server's
    next start on. The same content gives the same bytes. Raises `StoreUnwritable`,
    `CalibrationError` for content that is not what `info` says, and what `fill` raises; then all
    is as it was.
    """
    place = store.root / recipe.name / info.fingerprint
    with store.lock(recipe.name):
        with store.replacing(place, "calibrated") as new:
            fill(new)
            _check(new, info)
            _write(new / RECIPE, recipe)
            _write(new / VARIANT, info)
        chosen = choice.read(store, recipe.name)
        made = chosen.tried if candidate else chosen.promoted
        choice.write(store, recipe.name, made(info.fingerprint))
    return place


def variants(store: Store, model: str = "*") -> list[Variant]:
    """All variants of a model, or of all, whole or not: those that can tell what they are."""
    found = []
    for path in sorted(store.root.glob(f"{model}/*/{VARIANT}")):
        if path.parent.name.startswith("."):
            continue
        try:
            found.append(read(path.parent))
        except ModelDamaged:
            continue
    return found


def active(store: Store, recipe: TiledRecipe) -> Variant | None:
    """The variant that serves, None where that is the model in full precision.

    Raises `EngineMismatch` naming the fields in which it does not fit, `ModelMissing` or
    `ModelDamaged` where it is not there whole, each with the command that makes it anew.
    """
    fingerprint = choice.read(store, recipe.name).active
    return None if fingerprint is None else usable(store, recipe, fingerprint)


def candidate(store: Store, recipe: TiledRecipe) -> Variant | None:
    """The variant on trial, if there is one; raises as `active`."""
    fingerprint = choice.read(store, recipe.name).candidate
    return None if fingerprint is None else usable(store, recipe, fingerprint)


def usable(store: Store, recipe: TiledRecipe, fingerprint: str) -> Variant:
    """The variant of that fingerprint, once it fits and is whole; raises as `active`."""
    variant = read(store.root / recipe.name / fingerprint)
    unlike = differences(store, recipe, variant.info)
    if unlike:
        raise EngineMismatch(
            f"the calibrated {recipe.name} {fingerprint} differs in {', '.join(map(str, unlike))}",
            f"Run: {command(recipe.name)}",
        )
    variant.check()
    return variant


def recipe(variant: Variant) -> TiledRecipe:
    """As it comes with the program; a model that does not is as its variant says."""
    try:
        known = load_recipe(variant.info.model)
    except RecipeError:
        return variant.recipe()
    return known if isinstance(known, TiledRecipe) else variant.recipe()


def find(store: Store, model: str, fingerprint: str = "") -> Variant:
    """The one variant of the model whose fingerprint begins so.

    Raises `ModelMissing` for none, `ConfigError` for several.
    """
    found = [each for each in variants(store, model) if each.folder.name.startswith(fingerprint)]
    if not found:
        which = f" {fingerprint}" if fingerprint else ""
        raise ModelMissing(
            f"there is no calibrated model{which} of {model} in {store.root}",
            f"See edge-runtime engines list, or run: {command(model)}",
        )
    if len(found) > 1:
        names = ", ".join(each.folder.name for each in found)
        raise ConfigError(f"{model} has {len(found)} variants: {names}", "Name one of them.")
    return found[0]


def promote(store: Store, model: str, fingerprint: str | None = None) -> Variant:
    """Make a variant the active one: the candidate, or the one whose fingerprint begins so.

    Raises `ModelMissing` where there is none such, else as `active` and `find`.
    """
    with store.lock(model):
        chosen = choice.read(store, model)
        wanted = fingerprint or chosen.candidate
        if wanted is None:
            raise ModelMissing(
                f"no calibrated {model} is on trial",
                f"Name one of edge-runtime engines list, or run: {command(model)}",
            )
        variant = find(store, model, wanted)
        usable(store, recipe(variant), variant.folder.name)
        choice.write(store, model, chosen.promoted(variant.folder.name))
    return variant


def rollback(store: Store, model: str) -> str | None:
    """Make active what was so before, down to the model in full precision; its fingerprint.

    Raises `ModelMissing` where that is active already and nothing was before.
    """
    with store.lock(model):
        chosen = choice.read(store, model)
        if chosen.active is None and not chosen.before:
            raise ModelMissing(
                f"{model} serves in full precision, and nothing served before",
                f"See edge-runtime engines list {model}.",
            )
        left = chosen.back()
        choice.write(store, model, left)
    return left.active


def reject(store: Store, model: str, fingerprint: str, why: str) -> None:
    """End the trial of a variant, which stays in the store.

    Raises `StoreUnwritable`, and `ConfigError` where it was promoted meanwhile.
    """
    with store.lock(model):
        chosen = choice.read(store, model)
        if chosen.active == fingerprint:
            raise ConfigError(
                f"{fingerprint} was promoted before its trial was over",
                f"Run: edge-runtime engines rollback {model}",
            )
        choice.write(store, model, chosen.denied(fingerprint, why))


def remove(store: Store, variant: Variant) -> Choice:
    """Delete a variant; which ones are in use then. Raises `StoreUnwritable`."""
    model, fingerprint = variant.folder.parent.name, variant.folder.name
    with store.lock(model):
        left = choice.read(store, model).without(fingerprint)
        choice.write(store, model, left)
        with store.writing():
            shutil.rmtree(variant.folder)
    return left


def _check(folder: Path, info: VariantInfo) -> None:
    """Raise where a folder does not hold what `info` says, and all that serving takes."""
    missing = [name for name in _NEEDED if not (folder / name).is_file()]
    if missing:
        raise CalibrationError(
            f"no {missing[0]} was written", "Please report this: it is a fault of edge-runtime."
        )
    path = folder / SCHEME
    if manifest.sha256(path) != info.scheme:
        raise CalibrationError(
            f"the {SCHEME} that was written is not the one that was judged",
            f"Run: {command(info.model)}",
        )


def _write(path: Path, record: msgspec.Struct) -> None:
    path.write_bytes(
        msgspec.json.format(msgspec.json.encode(record, order="deterministic")) + b"\n"
    )
