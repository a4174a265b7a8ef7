"""An engine in one plain tar, for a fleet or a board that reaches nothing."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

import msgspec

from edge_runtime.engines import manifest
from edge_runtime.engines.board import Board
from edge_runtime.engines.engine import RECIPE, Engine, EngineInfo, read
from edge_runtime.engines.manifest import Manifest, StoredFile
from edge_runtime.engines.plans import unlike_here
from edge_runtime.engines.store import ENGINE, Store
from edge_runtime.errors import EngineMismatch, ModelDamaged, StoreUnwritable

_Record = TypeVar("_Record", Manifest, EngineInfo)
_NAME = re.compile(r"([a-z0-9][a-z0-9.-]*)/([0-9a-f]{16})/([A-Za-z0-9_][A-Za-z0-9_.-]*)")
_CHUNK = 1 << 20
_LARGEST_RECORD = 1 << 20  # bytes of a JSON file; ours have some thousand


def export(engine: Engine, out: Path) -> int:
    """Write all files of an engine, compiled kernels included, to the tar `out`; its bytes.

    The same files give the same tar. Raises `ModelDamaged` for an engine that is not whole and
    `StoreUnwritable` where `out` cannot be written.
    """
    engine.check(verify=True)
    sealed = manifest.checked(engine.folder)
    # These are rewritten while a server runs: what is read now is what goes.
    kernels = {
        path.name: path.read_bytes() for path in engine.folder.glob(f"[!.]*{manifest.VOLATILE}")
    }
    files = [*sealed.files]
    files += [
        StoredFile(name, len(content), hashlib.sha256(content).hexdigest())
        for name, content in kernels.items()
    ]
    files.sort(key=lambda file: file.name)
    listed = msgspec.json.format(msgspec.json.encode(Manifest(sealed.source, tuple(files))))
    prefix = f"{engine.info.model}/{engine.info.fingerprint}"
    with (
        _written(out) as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        _add(tar, f"{prefix}/{manifest.FILE}", len(listed), io.BytesIO(listed))
        for each in files:
            name = f"{prefix}/{each.name}"
            if each.name in kernels:
                _add(tar, name, each.size, io.BytesIO(kernels[each.name]))
                continue
            with (engine.folder / each.name).open("rb") as source:
                _add(tar, name, each.size, source)
    return out.stat().st_size


def _add(tar: tarfile.TarFile, name: str, size: int, content: IO[bytes]) -> None:
    """A member without owner, date or mode of this machine."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    tar.addfile(member, content)


@contextmanager
def _written(out: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of `out` once it is whole."""
    try:
        with tempfile.NamedTemporaryFile(
            prefix=f".{out.name}-", dir=out.parent, delete=False
        ) as file:
            part = Path(file.name)
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                part.chmod(0o644)
                part.replace(out)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise StoreUnwritable(
            f"{out} cannot be written: {error.strerror or error}",
            "Give -o a file in a folder where you may write and there is room.",
        ) from error


def bring(store: Store, path: Path, board: Board) -> tuple[Engine, bool]:
    """The engine of a bundle, in the store; whether it came just now.

    Every name and hash is checked before the engine appears. Raises `ModelDamaged` for a
    file that is no bundle, not whole, or reaches out of its folder, `EngineMismatch` for an
    engine that cannot serve here, and `StoreUnwritable`.
    """
    try:
        with tarfile.open(path, "r:") as tar:
            return _bring(store, _Bundle(path, tar), board)
    except (tarfile.TarError, EOFError) as error:
        raise _damaged(path, f"is no whole tar: {error}") from error
    except OSError as error:
        if error.filename == str(path):
            raise ModelDamaged(
                f"{path} cannot be read: {error.strerror}", "Check the path and its permissions."
            ) from error
        raise


def _bring(store: Store, bundle: _Bundle, board: Board) -> tuple[Engine, bool]:
    place = store.root / bundle.info.model / bundle.info.fingerprint
    with store.lock(bundle.info.model):
        if (place / manifest.FILE).is_file():
            engine = read(place)
            try:
                engine.check(verify=True)
                return engine, False
            except ModelDamaged:
                pass
        with store.replacing(place, bundle.manifest.source) as new:
            bundle.unpack(new)
            _refuse(store, Engine(new, bundle.info), board, bundle.path)
    return read(place), True


def _refuse(store: Store, engine: Engine, board: Board, path: Path) -> None:
    if engine.recipe().hash != engine.info.recipe:
        raise _damaged(path, f"has a {RECIPE} of another engine")
    unlike = unlike_here(store, engine, board)
    if unlike:
        raise EngineMismatch(
            f"{path} cannot serve here: it differs in {', '.join(map(str, unlike))}",
            "Export one that was built for this board, with the same edge-runtime and TensorRT.",
        )


class _Bundle:
    """The members of a tar, once their names are all as they should be."""

    def __init__(self, path: Path, tar: tarfile.TarFile) -> None:
        self.path, self._tar = path, tar
        self._members: dict[str, tarfile.TarInfo] = {}
        homes = set()
        for member in tar:
            found = _NAME.fullmatch(member.name)
            if found is None or member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                raise ModelDamaged(
                    f"{path} holds {member.name!r}, which no engine has",
                    "Do not use it; ask for one made by edge-runtime engines export.",
                )
            homes.add((found[1], found[2]))
            if found[3] in self._members:
                raise _damaged(path, f"holds {found[3]} twice")
            self._members[found[3]] = member
        if len(homes) != 1:
            raise _damaged(path, f"holds {len(homes)} engines, not one")
        self.manifest = self._record(manifest.FILE, Manifest)
        self.info = self._record(ENGINE, EngineInfo)
        listed = {file.name for file in self.manifest.files}
        if listed != self._members.keys() - {manifest.FILE}:
            raise _damaged(path, "does not hold the files that its manifest names")
        if homes != {(self.info.model, self.info.fingerprint)}:
            raise _damaged(path, f"has an {ENGINE} of another engine")

    def unpack(self, folder: Path) -> None:
        """Write all files, each checked against the manifest."""
        for file in self.manifest.files:
            digest, size = hashlib.sha256(), 0
            source = self._open(file.name)
            with (folder / file.name).open("xb") as target:
                while chunk := source.read(_CHUNK):
                    digest.update(chunk)
                    size += target.write(chunk)
            if size != file.size or digest.hexdigest() != file.sha256:
                raise _damaged(self.path, f"was changed: the sha256 of {file.name} differs")

    def _record(self, name: str, kind: type[_Record]) -> _Record:
        member = self._members.get(name)
        if member is None or member.size > _LARGEST_RECORD:
            raise _damaged(self.path, f"has no {name}")
        try:
            return msgspec.json.decode(self._open(name).read(), type=kind)
        except msgspec.MsgspecError as error:
            raise _damaged(self.path, f"has a {name} that cannot be read: {error}") from error

    def _open(self, name: str) -> IO[bytes]:
        opened = self._tar.extractfile(self._members[name])
        assert opened is not None  # only plain files got so far
        return opened


def _damaged(path: Path, what: str) -> ModelDamaged:
    return ModelDamaged(f"{path} {what}", "Export it again, and carry it over whole.")
