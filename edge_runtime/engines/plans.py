"""The engines of the store: what each was built for, and the one that serves here, or why none."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from edge_runtime.audio import RATE
from edge_runtime.device.tensorrt.module import find_tensorrt, installed
from edge_runtime.engines.board import Board
from edge_runtime.engines.difference import Difference, differing
from edge_runtime.engines.engine import Engine, EngineInfo, engines
from edge_runtime.engines.recipe import BuiltRecipe, TransducerRecipe, load_recipe
from edge_runtime.engines.store import Store, graphs_fingerprint
from edge_runtime.errors import EngineMismatch, ModelDamaged, ModelMissing, RecipeError

ROWS, SAMPLES = 12, 278_400
"""The largest batch that engines are built for by default: rows, and samples (16 kHz) of each."""


@dataclass(frozen=True)
class Wanted:
    """What an engine is looked for; None where anything will do.

    `capability` is None where no GPU tells it. `rows`, `samples` and `queries` are the
    largest batch, row and draft that it must take. For 8-bit integers `scheme` is the sha256 of
    theirs, and `variant` the fingerprint to build by where that is not the active one.
    """

    precision: str
    tensorrt: str
    version: str
    capability: tuple[int, int] | None = None
    split: tuple[int, ...] | None = None
    scheme: str | None = None
    variant: str = ""
    rows: int = 1
    samples: int = 1
    queries: int = 1

    def command(self, model: str, rows: int = ROWS, samples: int = SAMPLES) -> str:
        """The line that builds such an engine, for this batch or as large as it must take."""
        parts = ["edge-runtime build", model, f"--precision {self.precision}"]
        if self.variant:
            parts.append(f"--variant {self.variant}")
        parts.append(f"--tensorrt {self.tensorrt}")
        if self.split is not None:
            parts.append(f"--split {','.join(map(str, self.split))}")
        if (most := max(rows, self.rows)) != ROWS:
            parts.append(f"--rows {most}")
        if (longest := max(samples, self.samples)) > SAMPLES:
            parts.append(f"--seconds {-(-longest // RATE)}")
        return " ".join(parts)


def find(store: Store, recipe: BuiltRecipe, wanted: Wanted) -> Engine:
    """The newest whole engine of the model that is as wanted.

    Raises `ModelMissing` where none was ever built, `ModelDamaged` where the only one is
    not whole, and `EngineMismatch` naming the fields in which the nearest one differs; each
    names the command that builds it.
    """
    command = wanted.command(recipe.name)
    found = list(engines(store, recipe.name))
    if not found:
        raise ModelMissing(
            f"no engine of {recipe.name} was ever built in {store.root}", f"Run: {command}"
        )
    compared = [(differences(store, recipe, each.info, wanted), each) for each in found]
    fitting = [each for unlike, each in compared if not unlike]
    for engine in sorted(fitting, key=lambda each: each.info.built, reverse=True):
        try:
            engine.check()
        except ModelDamaged as error:
            damage = error
            continue
        return engine
    if fitting:
        raise ModelDamaged(damage.message, f"Run: {command} --again")
    unlike, engine = min(compared, key=lambda each: (len(each[0]), _other_precision(each[0])))
    # In all that is not wanted otherwise, as the engine that is there was built.
    if wanted.split is None and engine.info.split != recipe.decoder_tiles:
        wanted = replace(wanted, split=engine.info.split)
    raise EngineMismatch(
        f"the engine {engine.folder.name} of {recipe.name} differs in "
        f"{', '.join(map(str, unlike))}",
        f"Run: {wanted.command(recipe.name, engine.info.rows, engine.info.samples)}",
    )


def differences(
    store: Store, recipe: BuiltRecipe, info: EngineInfo, wanted: Wanted
) -> list[Difference]:
    """The fields in which an engine is not what is wanted, the gravest first."""
    hashes = _hashes(store, recipe) or info.weights
    try:
        cut = split(recipe, info.split)
        graphs = graphs_fingerprint(cut, wanted.precision, hashes.values(), info.scheme)
        digest = cut.hash
    except RecipeError:
        digest = graphs = "another number of layers"
    capability = wanted.capability
    scheme = info.scheme if wanted.scheme is None else wanted.scheme
    pairs: dict[str, tuple[object, object]] = {
        "tensorrt": (wanted.tensorrt, info.tensorrt),
        "version": (wanted.version, info.version),
        "precision": (wanted.precision, info.precision),
        "split": (wanted.split or info.split, info.split),
        "recipe": (digest, info.recipe),
        "weights": (hashes, info.weights),
        "graphs": (graphs, info.graphs),
    }
    if wanted.precision == info.precision:
        pairs["scheme"] = (scheme, info.scheme)
    unlike = differing(pairs)
    if capability is not None and not info.for_target(capability):
        unlike.append(Difference("target", "{}.{}".format(*capability), " ".join(info.target)))
    for field in ("rows", "samples", "queries"):
        one, other = getattr(wanted, field), getattr(info, field)
        if one > other:
            unlike.append(Difference(field, f"{one}", f"{other}"))
    return unlike


def _other_precision(unlike: list[Difference]) -> bool:
    return any(each.field == "precision" for each in unlike)


def unlike_here(store: Store, engine: Engine, board: Board) -> list[Difference]:
    """Why an engine cannot serve on this machine; what cannot be told here is no reason.

    A model whose recipe does not come with the program is as its engine says.
    Raises `ModelDamaged`.
    """
    info = engine.info
    try:
        known = load_recipe(info.model)
    except RecipeError:
        known = engine.recipe()
    version = info.version
    if info.tensorrt in installed():
        version = find_tensorrt(info.tensorrt).version
    wanted = Wanted(info.precision, info.tensorrt, version, board.capability, info.split)
    recipe = known if isinstance(known, BuiltRecipe) else engine.recipe()
    return differences(store, recipe, info, wanted)


def warnings(info: EngineInfo, board: Board) -> list[str]:
    """What is not as it was where the engine was built, and need not be."""
    pairs = {
        "GPU": (board.gpu, info.gpu),
        "L4T": (board.l4t, info.l4t),
        "driver": (board.driver, info.driver),
    }
    return [
        f"the engine was built with {name} {built}, this is {here}"
        for name, (here, built) in pairs.items()
        if here and built and here != built
    ]


def split(recipe: BuiltRecipe, tiles: tuple[int, ...] | None) -> BuiltRecipe:
    """The recipe with its decoder cut otherwise; raises `RecipeError` where that cannot be."""
    if tiles is None or tiles == recipe.decoder_tiles:
        return recipe
    if isinstance(recipe, TransducerRecipe):
        raise RecipeError(f"{recipe.name} has no layers to cut", "Leave out --split.")
    layers = recipe.architecture.decoder_layers
    if sum(tiles) != layers or min(tiles) < 1:
        given = ",".join(map(str, tiles))
        raise RecipeError(
            f"--split {given} does not cut {layers} layers",
            f"The numbers must add up to {layers}, as in --split {layers}.",
        )
    return msgspec.structs.replace(recipe, decoder_tiles=tiles)


def _hashes(store: Store, recipe: BuiltRecipe) -> dict[str, str] | None:
    """Of the weights that the store has; a board may have been given engines alone."""
    try:
        return store.hashes(recipe)
    except (ModelMissing, ModelDamaged):
        return None
