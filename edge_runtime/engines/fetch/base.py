"""What all ways of getting files share: the report of progress, and the check at the end."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

from edge_runtime.engines.manifest import sha256
from edge_runtime.engines.sources import SourceFile
from edge_runtime.errors import ModelDamaged

Report = Callable[[str, int, int], None]
"""Told what is coming, how many bytes have come, and of how many (0: not known)."""

_INTERVAL = 0.2


def check(file: SourceFile, path: Path) -> None:
    """Raises `ModelDamaged` unless the file at `path` has the size and sha256 it should."""
    fix = "Try again; if it stays so, the source serves something else than the recipe means."
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        raise ModelDamaged(f"{file.name} came with {size} bytes, not {file.size}", fix)
    if file.sha256 is not None and sha256(path) != file.sha256:
        raise ModelDamaged(f"{file.name} came with another sha256 than it should have", fix)


def watch(
    folder: Path, item: str, total: int, report: Report, finished: Callable[[float], bool]
) -> None:
    """Report how `folder` grows until `finished`, which waits for so many seconds, says so.

    What a downloader has written is the one measure that every version of it gives.
    """
    while not finished(_INTERVAL):
        report(item, min(_bytes(folder), total) if total else _bytes(folder), total)


def finishes(thread: threading.Thread) -> Callable[[float], bool]:
    """`watch`'s question, put to a thread."""

    def finished(seconds: float) -> bool:
        thread.join(seconds)
        return not thread.is_alive()

    return finished


def _bytes(folder: Path) -> int:
    size = 0
    for parent, _, names in os.walk(folder):  # goes past folders that have gone meanwhile
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # moved on between the two looks
                size += Path(parent, name).stat().st_size
    return size
