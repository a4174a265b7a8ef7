"""What a calibration has done so far, kept on the disk until it is over."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.store import Store

EVERY = 8
"""After so many items of a step it is kept: an interruption costs no more."""

T = TypeVar("T")
Arrays = dict[str, NDArray[Any]]


class Work:
    """A folder of finished steps by name; the same inputs find it again.

    A step is there whole or not at all. Everything that writes raises `StoreUnwritable`.
    """

    def __init__(self, store: Store, model: str, inputs: Iterable[bytes]) -> None:
        """`inputs` are all that the outcome depends on."""
        digest = hashlib.sha256()
        for each in inputs:
            digest.update(hashlib.sha256(each).digest())
        self._store = store
        self._model = model
        self.folder = store.root / model / f".calibration-{digest.hexdigest()[:16]}"
        self.continued = self.folder.is_dir()
        with store.writing():
            self.folder.mkdir(parents=True, exist_ok=True)

    def has(self, name: str) -> bool:
        """Whether a step is there."""
        return (self.folder / name).exists()

    def kept(self, name: str, kind: type[T], make: Callable[[], T]) -> T:
        """A step as JSON, made now where it is not there."""
        path = self.folder / name
        if path.is_file():
            return msgspec.json.decode(path.read_bytes(), type=kind, strict=False)
        made = make()
        self.write(name, lambda new: new.write_bytes(msgspec.json.encode(made)))
        return made

    def each(
        self,
        name: str,
        kind: type[T],
        wanted: Iterable[str],
        make: Callable[[str], T],
        told: Callable[[int], None] = lambda done: None,
    ) -> dict[str, T]:
        """A step of many items, by name in the order of `wanted`; kept every few of them.

        `told` hears how many are done.
        """
        path, wanted = self.folder / name, list(wanted)
        done: dict[str, T] = {}
        if path.is_file():
            done = msgspec.json.decode(path.read_bytes(), type=dict[str, kind])  # type: ignore[valid-type]

        def keep() -> None:
            self.write(name, lambda new: new.write_bytes(msgspec.json.encode(done)))

        fresh = 0
        for number, item in enumerate(wanted):
            if item not in done:
                done[item] = make(item)
                fresh += 1
                if fresh % EVERY == 0:
                    keep()
            told(number + 1)
        if fresh % EVERY:
            keep()
        return {item: done[item] for item in wanted}

    def arrays(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """A step of arrays by name, in their order, made now where it is not there."""
        path = self.folder / name
        if not path.is_file():
            made = make()
            self.write(name, lambda new: _save(new, made))
            return made
        with np.load(path, allow_pickle=False) as file:
            return {str(key): file[f"array_{number}"] for number, key in enumerate(file["names"])}

    def write(self, name: str, write: Callable[[Path], Any]) -> None:
        """Let `write` fill a file beside, and put it in its place."""
        path = self.folder / name
        new = path.with_name(f"new-{name}")
        with self._store.writing():
            write(new)
            new.replace(path)

    def drop(self, name: str) -> None:
        """Forget a step, if it is there."""
        with self._store.writing():
            (self.folder / name).unlink(missing_ok=True)

    def fill(self, name: str, write: Callable[[Path], Any]) -> Path:
        """A folder that is a step: filled beside by `write` where it is not there."""
        path = self.folder / name
        if not path.is_dir():
            new = path.with_name(f"new-{name}")
            with self._store.writing():
                shutil.rmtree(new, ignore_errors=True)
                new.mkdir()
                write(new)
                new.rename(path)
        return path

    def clear(self) -> None:
        """Remove what was kept, also of calibrations of other inputs that were given up."""
        with self._store.writing():
            for folder in (self._store.root / self._model).glob(".calibration-*"):
                shutil.rmtree(folder)


def _save(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    numbered: dict[str, Any] = {f"array_{n}": array for n, array in enumerate(arrays.values())}
    with path.open("wb") as file:
        np.savez(file, names=np.array(list(arrays), np.str_), **numbered)
