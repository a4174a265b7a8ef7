"""Kernels that TensorRT-RTX compiled on this machine, in a file beside the plan."""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path
from typing import Any, Protocol

_log = logging.getLogger(__name__)


class Cache(Protocol):
    """What a plan's engine may keep for the next start."""

    def save(self) -> None: ...


class NoCache:
    """TensorRT proper has its kernels in the plan."""

    def save(self) -> None:
        return None


class KernelCache:
    """The runtime cache of one plan; a file that does not fit this machine is made anew.

    Making one costs seconds, so nothing here raises: the worst is a slow start.
    """

    def __init__(self, config: Any, path: Path) -> None:
        self._path = path
        self._cache = config.create_runtime_cache()
        self._kept = b""
        self._read()
        config.set_runtime_cache(self._cache)

    def _read(self) -> None:
        try:
            blob = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            _log.warning("kernels are compiled again: %s", error)
            return
        if blob and self._cache.deserialize(blob):
            self._kept = blob
        else:
            _log.warning("kernels are compiled again: %s is not of this machine", self._path)

    def save(self) -> None:
        """Write the file where there is something new."""
        blob = bytes(self._cache.serialize())
        if blob == self._kept:
            return
        try:
            _replace(self._path, blob)
            self._kept = blob
        except OSError as error:
            _log.warning("the next start compiles kernels again: %s", error)


def _replace(path: Path, content: bytes) -> None:
    """Whole or not at all, whoever writes it at the same time."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
