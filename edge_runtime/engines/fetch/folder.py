"""Files that the user has already: loose, as a wheel unpacks, or inside the wheel."""

from __future__ import annotations

import shutil
from pathlib import Path

from edge_runtime.engines.fetch import pypi
from edge_runtime.engines.fetch.base import check
from edge_runtime.engines.recipe import AnyRecipe
from edge_runtime.engines.sources import PypiSource, Source, Wheel
from edge_runtime.errors import ModelMissing


def fetch(recipe: AnyRecipe, folder: Path, into: Path) -> None:
    """Copy the model's files, checked, from `folder` to `into`; any of its sources will do.

    Raises `ModelMissing` saying what was looked for, or `ModelDamaged`.
    """
    for source in recipe.sources.named().values():
        place = _loose(source, folder)
        if place is not None:
            for file in source.all_files:
                shutil.copyfile(place / file.name, into / file.name)
                check(file, into / file.name)
            return
        wheels = _wheels(source, folder)
        for described, wheel in wheels:
            pypi.unpack(described, wheel, into)
        if wheels:
            return
    wanted = "; or ".join(_names(source) for source in recipe.sources.named().values())
    raise ModelMissing(f"{folder} does not hold {recipe.name}", f"It needs {wanted}.")


def holds(recipe: AnyRecipe, folder: Path) -> bool:
    """Whether `folder` has the files of any of the model's sources, damaged or not."""
    return any(
        _loose(source, folder) is not None or _wheels(source, folder)
        for source in recipe.sources.named().values()
    )


def _wheels(source: Source, folder: Path) -> list[tuple[Wheel, Path]]:
    """The source's wheels that lie in `folder`, if all of them do."""
    if not isinstance(source, PypiSource):
        return []
    found = [(wheel, pypi.find_wheel(wheel, folder)) for wheel in source.wheels]
    there = [(wheel, path) for wheel, path in found if path is not None]
    return there if len(there) == len(found) else []


def _loose(source: Source, folder: Path) -> Path | None:
    places = [folder]
    if isinstance(source, PypiSource):
        places.append(folder / source.folder)
    for place in places:
        if all((place / file.name).is_file() for file in source.all_files):
            return place
    return None


def _names(source: Source) -> str:
    names = ", ".join(file.name for file in source.all_files)
    if isinstance(source, PypiSource):
        several = "s" if source.more else ""
        each = " and ".join(f"{wheel.package} {wheel.version}" for wheel in source.wheels)
        names += f" (or the wheel{several} of {each})"
    return names
