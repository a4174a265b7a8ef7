"""Where models live on this machine: weights as they came, graphs made from them.

`<root>/<model>/weights/` holds the files and `manifest.json`;
`<root>/<model>/<fingerprint>/` the graphs and theirs; engines lie beside them in folders
of the same form, which `plans` knows by their `engine.json`, and calibrated models, which
`variants` knows by their `calibration.json`. A folder appears under its name only when it is
whole: it is written beside and renamed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from edge_runtime.engines import manifest
from edge_runtime.engines.manifest import FILE, Manifest
from edge_runtime.engines.recipe import AnyRecipe, load_recipe, recipes
from edge_runtime.errors import EdgeRuntimeError, ModelDamaged, ModelMissing, StoreUnwritable

_log = logging.getLogger(__name__)
# None: a short write of numpy's comes without a number.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, None}
_UNWRITABLE = _FULL | {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}

ENGINE = "engine.json"
"""The file that tells an engine's folder from one of graphs."""

VARIANT = "calibration.json"
"""The file that tells a calibrated model's folder from one of graphs."""

# What of `calibrate` decides which graphs come of a scheme.
_QUANTISER = (
    "activation", "products", "quantise", "rewriting", "rounding", "scheme", "sites", "table",
    "write",
)  # fmt: skip

Progress = Callable[[str, int, int], None]
"""Told the name of what is written, how many are done, and of how many."""


class Stored(msgspec.Struct, frozen=True):
    """One model as the store has it: its weights, if whole, and the folders of its graphs.

    `size` is bytes of all that the store has of it: weights, graphs, engines and variants.
    """

    recipe: AnyRecipe
    state: Literal["absent", "damaged", "no graphs", "ready"]
    weights: Manifest | None
    graphs: tuple[str, ...]
    size: int = 0


class Store:
    """The models of this machine, in a folder that several processes may use at once."""

    def __init__(self, root: Path | str | None = None) -> None:
        self.root = Path(root) if root is not None else default_root()

    def weights(self, recipe: AnyRecipe, *, verify: bool = False) -> Path:
        """The folder with the model's weights.

        Sizes are compared; with `verify` also every sha256.
        Raises `ModelMissing` or `ModelDamaged`, each naming the command that helps.
        """
        folder = self.root / recipe.name / "weights"
        self._checked(folder, recipe.name, verify=verify)
        return folder

    def graphs(
        self, recipe: AnyRecipe, precision: str = "fp32", progress: Progress | None = None
    ) -> Path:
        """The folder with the model's graphs, exported now where they are not there yet.

        Raises `ModelMissing` or `ModelDamaged` for the weights, `RecipeError` for
        an unknown precision, `StoreUnwritable` where graphs are due and there is
        no room or right to write them.
        """
        folder = self.root / recipe.name / self.fingerprint(recipe, precision)
        if self._whole(folder, recipe.name):
            return folder
        from edge_runtime.engines.export import export

        weights = self.weights(recipe)
        with self.lock(recipe.name):
            if self._whole(folder, recipe.name):
                return folder
            _log.info("exporting %s in %s to %s", recipe.name, precision, folder)
            with self.replacing(folder, f"exported in {precision}") as new:
                export(
                    recipe, weights, new, precision, progress or (lambda name, done, total: None)
                )
        return folder

    def fingerprint(self, recipe: AnyRecipe, precision: str) -> str:
        """16 hex digits of everything that decides what the graphs are.

        Raises as `weights` does.
        """
        return graphs_fingerprint(recipe, precision, self.hashes(recipe).values())

    def hashes(self, recipe: AnyRecipe) -> dict[str, str]:
        """The sha256 of every file of the weights by its name. Raises as `weights` does."""
        weights = self._checked(self.root / recipe.name / "weights", recipe.name)
        return {file.name: file.sha256 for file in weights.files}

    def forget_graphs(self, name: str, keep: Collection[str] = ()) -> None:
        """Delete a model's exported graphs but those in `keep`. Raises `StoreUnwritable`."""
        with self.writing():
            for folder in self._graph_folders(name):
                if folder.name not in keep:
                    shutil.rmtree(folder)

    def delete(self, name: str, folder: Path) -> None:
        """Delete a folder of the model. Raises `StoreUnwritable`."""
        with self.lock(name), self.writing():
            shutil.rmtree(folder)

    def listing(self) -> list[Stored]:
        """Every known recipe, with what the store has of it; "ready" is with float32 graphs."""
        return [self._stored(load_recipe(name)) for name in recipes()]

    def _stored(self, recipe: AnyRecipe) -> Stored:
        graphs = tuple(folder.name for folder in self._graph_folders(recipe.name))
        size = self.size(recipe.name)
        try:
            weights = self._checked(self.root / recipe.name / "weights", recipe.name)
            current = self.fingerprint(recipe, "fp32")
        except ModelMissing:
            return Stored(recipe, "absent", None, graphs, size)
        except ModelDamaged:
            return Stored(recipe, "damaged", None, graphs, size)
        state: Literal["ready", "no graphs"] = "ready" if current in graphs else "no graphs"
        return Stored(recipe, state, weights, graphs, size)

    def size(self, name: str) -> int:
        """Bytes of all that the store has of a model."""
        return sum(path.stat().st_size for path in (self.root / name).rglob("*") if path.is_file())

    @contextlib.contextmanager
    def lock(self, name: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold the model for writing, alone among all processes; waits for the one that does.

        `waiting` is called before a wait. Raises `StoreUnwritable`.
        """
        with self.writing():
            self.root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.root / f".{name}.lock", os.O_RDWR | os.O_CREAT, 0o664)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def replacing(self, folder: Path, source: str) -> Iterator[Path]:
        """A new folder to fill, which takes the place of `folder` when the block ends well.

        Hold `lock`. Nothing is left behind, and the old folder untouched, when
        the block raises. Raises `StoreUnwritable`.
        """
        with self.writing():
            folder.parent.mkdir(parents=True, exist_ok=True)
            _sweep(folder.parent)
            new = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
            new.chmod(0o755)
            try:
                yield new
                manifest.seal(new, source)
                old = folder.with_name(f".old-{folder.name}")
                if folder.exists():
                    folder.rename(old)
                new.rename(folder)
                manifest.sync(folder.parent)
                shutil.rmtree(old, ignore_errors=True)
            finally:
                shutil.rmtree(new, ignore_errors=True)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Turns what the system says of a write into `StoreUnwritable` with the fix."""
        try:
            yield
        except OSError as error:
            # Some of our own tree are OSErrors too.
            if isinstance(error, EdgeRuntimeError) or error.errno not in _UNWRITABLE:
                raise
            if error.errno in _FULL:
                fix = f"Free space on the disk of {self.root}, or set EDGE_RUNTIME_STORE."
                raise StoreUnwritable(f"no space left for {self.root}", fix) from error
            fix = "Run as a user who may write there, or set EDGE_RUNTIME_STORE to another folder."
            reason = error.strerror or str(error)
            raise StoreUnwritable(f"{self.root} cannot be written: {reason}", fix) from error

    def _graph_folders(self, name: str) -> list[Path]:
        folder = self.root / name
        made = folder.glob(f"*/{FILE}") if folder.is_dir() else ()
        found = (path.parent for path in made if path.parent.name != "weights")
        others = (ENGINE, VARIANT)
        return sorted(each for each in found if not any((each / it).is_file() for it in others))

    def _whole(self, folder: Path, name: str) -> bool:
        try:
            self._checked(folder, name)
        except ModelMissing:
            return False
        except ModelDamaged as error:
            _log.warning("exporting again: %s", error.message)
            return False
        return True

    def _checked(self, folder: Path, name: str, *, verify: bool = False) -> Manifest:
        """The folder's manifest, once all files are as it says."""
        if not (folder / FILE).is_file():
            raise ModelMissing(
                f"{name} is not in the store {self.root}", f"Run: edge-runtime pull {name}"
            )
        try:
            return manifest.checked(folder, verify=verify)
        except ModelDamaged as error:
            raise ModelDamaged(error.message, f"Run: edge-runtime pull {name} --again") from error


def default_root() -> Path:
    """`$EDGE_RUNTIME_STORE`, or `/var/lib/edge-runtime` where it can be written, or the cache."""
    if chosen := os.environ.get("EDGE_RUNTIME_STORE"):
        return Path(chosen).expanduser()
    shared = Path("/var/lib/edge-runtime")
    if shared.is_dir() and os.access(shared, os.W_OK):
        return shared
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "edge-runtime"


def graphs_fingerprint(
    recipe: AnyRecipe, precision: str, hashes: Iterable[str], scheme: str = ""
) -> str:
    """16 hex digits of the graphs that come of weights with these sha256, in this order.

    `scheme` is the sha256 of the scheme that graphs of 8-bit integers are made by.
    """
    parts = [recipe.hash, precision, _exporter(), *hashes]
    if scheme:
        parts += [scheme, _quantiser()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _exporter() -> str:
    """sha256 of the exporter's own source: a changed exporter makes new graphs by itself."""
    return _digest(sorted((Path(__file__).parent / "export").rglob("*.py")))


def _quantiser() -> str:
    folder = Path(__file__).parent / "calibrate"
    return _digest([folder / f"{name}.py" for name in _QUANTISER])


def _digest(sources: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _sweep(folder: Path) -> None:
    """Clear away what writers that were killed left behind; hold the lock.

    One killed between its two renames has left the old folder as the only one.
    """
    for old in folder.glob(".old-*"):
        place = folder / old.name.removeprefix(".old-")
        if place.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(place)
    for new in folder.glob(".new-*"):
        shutil.rmtree(new, ignore_errors=True)
