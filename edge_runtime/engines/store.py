"""Where models live on this machine: weights as they came, graphs made from them.

`<root>/<model>/weights/` holds the files and `manifest.json`;
`<root>/<model>/<fingerprint>/` the graphs and theirs. A folder appears under
its name only when it is whole: it is written beside and renamed.
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
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import msgspec

from edge_runtime.engines.recipe import AnyRecipe, load_recipe, recipes
from edge_runtime.errors import EdgeRuntimeError, ModelDamaged, ModelMissing, StoreUnwritable

MANIFEST = "manifest.json"

_log = logging.getLogger(__name__)
_CHUNK = 1 << 20
_FULL = {errno.ENOSPC, errno.EDQUOT, None}
_UNWRITABLE = _FULL | {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}

Progress = Callable[[str, int, int], None]
"""Told the name of what is written, how many are done, and of how many."""


class StoredFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file as it was when its folder was completed."""

    name: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a folder holds and where it came from: `source` is free text for people."""

    source: str
    files: tuple[StoredFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


class Stored(msgspec.Struct, frozen=True):
    """One model as the store has it: None where there is nothing whole."""

    recipe: AnyRecipe
    weights: Manifest | None
    graphs: tuple[str, ...]


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
        weights = self._checked(self.root / recipe.name / "weights", recipe.name)
        parts = [recipe.hash, precision, _exporter()]
        parts += [file.sha256 for file in weights.files]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def forget_graphs(self, name: str, keep: Collection[str] = ()) -> None:
        """Delete a model's exported graphs but those in `keep`. Raises `StoreUnwritable`."""
        with self._writing():
            for folder in self._graph_folders(name):
                if folder.name not in keep:
                    shutil.rmtree(folder)

    def listing(self) -> list[Stored]:
        """Every known recipe, with what the store has of it."""
        found = []
        for name in recipes():
            recipe, weights = load_recipe(name), None
            with contextlib.suppress(ModelMissing, ModelDamaged):
                weights = self._checked(self.root / name / "weights", name)
            graphs = tuple(folder.name for folder in self._graph_folders(name))
            found.append(Stored(recipe, weights, graphs))
        return found

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold the model for writing, alone among all processes; waits for the one that does.

        Raises `StoreUnwritable`.
        """
        with self._writing():
            self.root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.root / f".{name}.lock", os.O_RDWR | os.O_CREAT, 0o664)
        try:
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
        with self._writing():
            folder.parent.mkdir(parents=True, exist_ok=True)
            _sweep(folder.parent)
            new = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
            new.chmod(0o755)
            try:
                yield new
                _seal(new, source)
                old = folder.with_name(f".old-{folder.name}")
                if folder.exists():
                    folder.rename(old)
                new.rename(folder)
                _sync(folder.parent)
                shutil.rmtree(old, ignore_errors=True)
            finally:
                shutil.rmtree(new, ignore_errors=True)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Turns what the system says of a write into `StoreUnwritable` with the fix."""
        try:
            yield
        except OSError as error:
            # Of our own tree some are OSErrors too; a short write of numpy's has no number.
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
        made = folder.glob(f"*/{MANIFEST}") if folder.is_dir() else ()
        return sorted(path.parent for path in made if path.parent.name != "weights")

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
        path = folder / MANIFEST
        again = f"Run: edge-runtime pull {name} --again"
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except (FileNotFoundError, NotADirectoryError):
            raise ModelMissing(
                f"{name} is not in the store {self.root}", f"Run: edge-runtime pull {name}"
            ) from None
        except msgspec.MsgspecError as error:
            raise ModelDamaged(f"{path}: {error}", again) from error
        for file in manifest.files:
            found = folder / file.name
            if not found.is_file():
                raise ModelDamaged(f"{found} is gone", again)
            if found.stat().st_size != file.size:
                raise ModelDamaged(
                    f"{found} has {found.stat().st_size} bytes, not {file.size}", again
                )
            if verify and sha256(found) != file.sha256:
                raise ModelDamaged(f"{found} was changed: its sha256 differs", again)
        return manifest


def default_root() -> Path:
    """`$EDGE_RUNTIME_STORE`, or `/var/lib/edge-runtime` where it can be written, or the cache."""
    if chosen := os.environ.get("EDGE_RUNTIME_STORE"):
        return Path(chosen).expanduser()
    shared = Path("/var/lib/edge-runtime")
    if shared.is_dir() and os.access(shared, os.W_OK):
        return shared
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "edge-runtime"


def sha256(path: Path) -> str:
    """Of a file's content, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _exporter() -> str:
    """sha256 of the exporter's own source: a changed exporter makes new graphs by itself."""
    digest = hashlib.sha256()
    for path in sorted((Path(__file__).parent / "export").glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _seal(folder: Path, source: str) -> None:
    """Write the manifest of all files in `folder`, and everything through to the disk."""
    files = []
    for path in sorted(folder.iterdir()):
        files.append(StoredFile(path.name, path.stat().st_size, sha256(path)))
        _sync(path)
    manifest = folder / MANIFEST
    encoded = msgspec.json.encode(Manifest(source, tuple(files)))
    manifest.write_bytes(msgspec.json.format(encoded))
    _sync(manifest)
    _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
