"""The engines of the store: what each was built for, and the one that serves here, or why none."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from edge_runtime.engines import manifest
from edge_runtime.engines.board import Board
from edge_runtime.engines.recipe import MoonshineRecipe
from edge_runtime.engines.store import ENGINE, Store, graphs_fingerprint
from edge_runtime.errors import EngineMismatch, ModelDamaged, ModelMissing, RecipeError

PORTABLE = "8.0-12.x"
"""The target of plans that TensorRT-RTX builds: Ampere and all that followed."""


class EngineInfo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an engine was built from and for, in `engine.json`.

    To be used, an engine must match in all fields down to `queries` (`rows`, `samples` and
    `queries`: hold as much). `target` names compute capabilities, one or a range each.
    """

    model: str
    recipe: str
    weights: dict[str, str]
    graphs: str
    precision: str
    split: tuple[int, ...]
    tensorrt: str
    version: str
    target: tuple[str, ...]
    rows: int
    samples: int
    queries: int
    # Only warned about.
    gpu: str = ""
    l4t: str = ""
    driver: str = ""
    # How it came about.
    built: str = ""
    seconds: float = 0.0
    host: str = ""
    workspace_mb: int = 0

    @property
    def fingerprint(self) -> str:
        """16 hex digits of everything that must match: the name of the engine's folder."""
        content = {name: getattr(self, name) for name in _MUST}
        encoded = msgspec.json.encode(content, order="sorted")
        return hashlib.sha256(encoded).hexdigest()[:16]

    def for_target(self, capability: tuple[int, int]) -> bool:
        """Whether its plans are for a GPU of that compute capability."""
        return any(_covers(each, capability) for each in self.target)


_FIELDS = EngineInfo.__struct_fields__
_MUST = _FIELDS[: _FIELDS.index("queries") + 1]


@dataclass(frozen=True)
class Engine:
    """A whole engine in the store."""

    folder: Path
    info: EngineInfo


@dataclass(frozen=True)
class Wanted:
    """What an engine is looked for; None where anything will do.

    `capability` is None where no GPU tells it. `rows`, `samples` and `queries` are the
    largest batch, row and draft that it must take.
    """

    precision: str
    tensorrt: str
    version: str
    capability: tuple[int, int] | None = None
    split: tuple[int, ...] | None = None
    rows: int = 1
    samples: int = 1
    queries: int = 1

    def command(self, model: str) -> str:
        """The line that builds such an engine."""
        parts = ["edge-runtime build", model, f"--precision {self.precision}"]
        parts.append(f"--tensorrt {self.tensorrt}")
        if self.split is not None:
            parts.append(f"--split {','.join(map(str, self.split))}")
        if self.rows > ROWS:
            parts.append(f"--rows {self.rows}")
        return " ".join(parts)


ROWS = 12
"""Rows of the largest batch that engines are built for by default."""


@dataclass(frozen=True)
class Difference:
    """A field in which an engine is not what is wanted."""

    field: str
    wanted: str
    found: str

    def __str__(self) -> str:
        return f"{self.field} (wanted {self.wanted}, found {self.found})"


def find(store: Store, recipe: MoonshineRecipe, wanted: Wanted) -> Engine:
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
            manifest.checked(engine.folder)
        except ModelDamaged as error:
            damage = error
            continue
        return engine
    if fitting:
        raise ModelDamaged(damage.message, f"Run: {command} --again")
    unlike, engine = min(compared, key=lambda each: len(each[0]))
    raise EngineMismatch(
        f"the engine {engine.folder.name} of {recipe.name} differs in "
        f"{', '.join(map(str, unlike))}",
        f"Run: {command}",
    )


def engines(store: Store, model: str = "*") -> Iterator[Engine]:
    """All engines of a model, or of all, whole or not: those that can tell what they are."""
    for path in sorted(store.root.glob(f"{model}/*/{ENGINE}")):
        if path.parent.name.startswith("."):
            continue
        try:
            engine = read(path.parent)
        except ModelDamaged:
            continue
        yield engine


def read(folder: Path) -> Engine:
    """The engine in a folder, whole or not; raises `ModelDamaged` where it tells nothing."""
    path = folder / ENGINE
    try:
        return Engine(folder, msgspec.json.decode(path.read_bytes(), type=EngineInfo))
    except (OSError, msgspec.MsgspecError) as error:
        raise ModelDamaged(f"{path}: {error}", "Run: edge-runtime build MODEL --again") from error


def differences(
    store: Store, recipe: MoonshineRecipe, info: EngineInfo, wanted: Wanted
) -> list[Difference]:
    """The fields in which an engine is not what is wanted, the gravest first."""
    hashes = _hashes(store, recipe) or info.weights
    try:
        cut = split(recipe, info.split)
        graphs = graphs_fingerprint(cut, wanted.precision, hashes.values())
        digest = cut.hash
    except RecipeError:
        digest = graphs = "another number of layers"
    capability = wanted.capability
    pairs = {
        "tensorrt": (wanted.tensorrt, info.tensorrt),
        "version": (wanted.version, info.version),
        "precision": (wanted.precision, info.precision),
        "split": (wanted.split or info.split, info.split),
        "recipe": (digest, info.recipe),
        "weights": (hashes, info.weights),
        "graphs": (graphs, info.graphs),
    }
    unlike = [
        Difference(field, *_told(field, one, other))
        for field, (one, other) in pairs.items()
        if one != other
    ]
    # Graphs are made of these: they say nothing more.
    if any(each.field in ("precision", "recipe", "weights") for each in unlike):
        unlike = [each for each in unlike if each.field != "graphs"]
    if capability is not None and not info.for_target(capability):
        unlike.append(Difference("target", "{}.{}".format(*capability), " ".join(info.target)))
    for field in ("rows", "samples", "queries"):
        one, other = getattr(wanted, field), getattr(info, field)
        if one > other:
            unlike.append(Difference(field, f"{one}", f"{other}"))
    return unlike


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


def split(recipe: MoonshineRecipe, tiles: tuple[int, ...] | None) -> MoonshineRecipe:
    """The recipe with its decoder cut otherwise; raises `RecipeError` where that cannot be."""
    if tiles is None or tiles == recipe.decoder_tiles:
        return recipe
    layers = recipe.architecture.decoder_layers
    if sum(tiles) != layers or min(tiles) < 1:
        given = ",".join(map(str, tiles))
        raise RecipeError(
            f"--split {given} does not cut {layers} layers",
            f"The numbers must add up to {layers}, as in --split {layers}.",
        )
    return msgspec.structs.replace(recipe, decoder_tiles=tiles)


def _hashes(store: Store, recipe: MoonshineRecipe) -> dict[str, str] | None:
    """Of the weights that the store has; a board may have been given engines alone."""
    try:
        return store.hashes(recipe)
    except (ModelMissing, ModelDamaged):
        return None


def _told(field: str, one: object, other: object) -> tuple[str, str]:
    """Two values that differ, short enough for a sentence."""
    if isinstance(one, dict) and isinstance(other, dict):
        name = next(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
        return tuple(f"{name} {str(each.get(name))[:12]}" for each in (one, other))  # type: ignore[return-value]
    if field == "split":
        return _joined(one), _joined(other)
    return str(one)[:16], str(other)[:16]


def _joined(tiles: object) -> str:
    return ",".join(map(str, tiles)) if isinstance(tiles, tuple) else str(tiles)


def _covers(target: str, capability: tuple[int, int]) -> bool:
    """Whether `8.7`, or a range as `8.0-12.x`, holds a compute capability."""
    low, _, high = target.partition("-")
    return _number(low, 0) <= capability <= _number(high or low, 999)


def _number(text: str, unknown: int) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), unknown if minor in ("", "x") else int(minor)
