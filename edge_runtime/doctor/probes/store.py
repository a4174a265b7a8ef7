"""The store: may it be written, has it room, are models and engines in it whole."""

from __future__ import annotations

from collections.abc import Iterator

from edge_runtime.doctor.facts import Engine, Model, Store
from edge_runtime.doctor.machine import Machine
from edge_runtime.doctor.probes.settings import configured
from edge_runtime.engines import engine as stored
from edge_runtime.engines.form import form
from edge_runtime.engines.plans import Wanted, differences
from edge_runtime.engines.recipe import (
    AnyRecipe,
    BuiltRecipe,
    TiledRecipe,
    TransducerRecipe,
    load_recipe,
)
from edge_runtime.engines.store import Store as Folder
from edge_runtime.errors import EdgeRuntimeError, RecipeError

SERVICE_STORE = "/var/lib/edge-runtime"
"""Where models are under systemd."""


def store(machine: Machine, config: str) -> Store:
    """Sizes of files are compared with what manifests say; no hash is computed."""
    settings = configured(machine, config)
    root = machine.store()
    folder = Folder(root)
    free, size = machine.disk(root)
    there = root.is_dir()
    return Store(
        root=str(root),
        exists=there,
        writable=machine.writable(root) if there else True,
        free=free,
        size=size,
        models=tuple(
            dict.fromkeys(
                each for name in settings.serving.served for each in _models(folder, name)
            )
        ),
        engines=tuple(_engines(folder)),
        service=machine.path(SERVICE_STORE).is_dir() and root != machine.path(SERVICE_STORE),
        precisions=_precisions(folder, settings.serving.model, settings.computing.precision),
    )


def _models(folder: Folder, name: str) -> Iterator[Model]:
    """One that is configured, and those that it needs."""
    try:
        recipe = load_recipe(name)
    except RecipeError as error:
        yield Model(name=name, trouble=error.message, fix=error.fix)
        return
    needed: list[AnyRecipe] = [recipe, *(load_recipe(each) for each in recipe.requires)]
    for each in needed:
        try:
            folder.weights(each)
        except EdgeRuntimeError as error:
            # Pulling the model brings what it needs.
            yield Model(name=each.name, trouble=error.message, fix=error.fix)
        else:
            yield Model(name=each.name)


def _engines(folder: Folder) -> Iterator[Engine]:
    for engine in stored.engines(folder):
        info, damage, unlike = engine.info, "", []
        try:
            engine.check()
            if info.fingerprint != engine.folder.name:
                damage = f"{engine.folder} was built as {info.fingerprint}"
            recipe = engine.recipe()
            known = load_recipe(info.model)
            recipe = known if isinstance(known, BuiltRecipe) else recipe
        except RecipeError:
            pass  # a recipe of the user's own: as the engine has it
        except EdgeRuntimeError as error:
            damage = error.message
        if not damage:
            wanted = Wanted(info.precision, info.tensorrt, info.version, split=info.split)
            unlike = [str(each) for each in differences(folder, recipe, info, wanted)]
        yield Engine(
            model=info.model,
            fingerprint=engine.folder.name,
            tensorrt=info.tensorrt,
            version=info.version,
            target=info.target,
            precision=info.precision,
            split=info.split,
            unlike=tuple(unlike),
            damage=damage,
        )


def _precisions(folder: Folder, name: str, precision: str) -> tuple[str, ...]:
    """The precisions that the server takes an engine of, as a GPU has them."""
    try:
        recipe = load_recipe(name)
        if isinstance(recipe, TransducerRecipe):
            return ("fp32",)  # as it is published
        if not isinstance(recipe, TiledRecipe):
            return ()
        chosen = form(folder, recipe, precision, "fp16")
    except EdgeRuntimeError:
        return () if precision == "auto" else (precision,)
    return tuple(dict.fromkeys(each for each in (chosen.precision, chosen.full) if each))
