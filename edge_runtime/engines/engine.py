"""An engine: the plans of one model for one TensorRT and one kind of GPU, and what they are for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from edge_runtime.engines import manifest
from edge_runtime.engines.recipe import BuiltRecipe
from edge_runtime.engines.store import ENGINE, Store
from edge_runtime.errors import ModelDamaged

PORTABLE = "8.0-12.x"
"""The target of plans that TensorRT-RTX builds: Ampere and all that followed."""

RECIPE = "recipe.json"


class EngineInfo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an engine was built from and for, in `engine.json`.

    To be used, an engine must match in all fields down to `queries` (`rows`, `samples` and
    `queries`: hold as much). `target` names compute capabilities, one or a range each. `scheme`
    is the sha256 of the scheme of an engine of 8-bit integers, `variant` the fingerprint of the
    calibrated model that it was built of, `forced` whether that one was, `settings` what was
    measured to suit with it.
    """

    model: str
    recipe: str
    weights: dict[str, str]
    graphs: str
    precision: str
    scheme: str = ""
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
    variant: str = ""
    forced: bool = False
    settings: dict[str, float] = {}
    built: str = ""
    seconds: float = 0.0
    host: str = ""
    workspace_mb: int = 0

    @property
    def fingerprint(self) -> str:
        """16 hex digits of everything that must match: the name of the engine's folder."""
        content = {name: getattr(self, name) for name in _MUST}
        # Engines in floating point are named as they were before there were others.
        if not self.scheme:
            del content["scheme"]
        encoded = msgspec.json.encode(content, order="sorted")
        return hashlib.sha256(encoded).hexdigest()[:16]

    def for_target(self, capability: tuple[int, int]) -> bool:
        """Whether its plans are for a GPU of that compute capability."""
        return any(covers(each, capability) for each in self.target)


_FIELDS = EngineInfo.__struct_fields__
_MUST = _FIELDS[: _FIELDS.index("queries") + 1]


@dataclass(frozen=True)
class Engine:
    """A folder of plans, and what it tells of them."""

    folder: Path
    info: EngineInfo

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(path.stat().st_size for path in self.folder.iterdir())

    def check(self, *, verify: bool = False) -> None:
        """Raises `ModelDamaged` for a file that is gone or changed; hashes only with `verify`."""
        variant = f"--variant {self.info.variant} " if self.info.variant else ""
        again = (
            f"--precision {self.info.precision} {variant}--tensorrt {self.info.tensorrt} --again"
        )
        try:
            manifest.checked(self.folder, verify=verify)
        except ModelDamaged as error:
            fix = f"Run: edge-runtime build {self.info.model} {again}"
            raise ModelDamaged(error.message, fix) from error

    def recipe(self) -> BuiltRecipe:
        """The recipe that it was built from; raises `ModelDamaged`."""
        path = self.folder / RECIPE
        try:
            recipe: BuiltRecipe = msgspec.json.decode(path.read_bytes(), type=BuiltRecipe)
        except (OSError, msgspec.MsgspecError) as error:
            raise ModelDamaged(f"{path}: {error}", "Build or import the engine again.") from error
        return recipe


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


def covers(target: str, capability: tuple[int, int]) -> bool:
    """Whether `8.7`, or a range as `8.0-12.x`, holds a compute capability."""
    low, _, high = target.partition("-")
    return _number(low, 0) <= capability <= _number(high or low, 999)


def _number(text: str, unknown: int) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), unknown if minor in ("", "x") else int(minor)
