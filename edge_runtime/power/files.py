"""Small files of the kernel: what is in one now, or None."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

MOST = 1 << 16
"""Bytes of the longest file that is read."""


def text(path: Path | str) -> str | None:
    """Without blanks at its ends; None where it cannot be read now, or holds nothing.

    A sensor without power says EAGAIN, every time: it is not asked again.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        # In one read, as the kernel makes one value: buffered files take EAGAIN for no data.
        found = os.read(descriptor, MOST)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return found.decode("utf-8", "replace").replace("\0", " ").strip() or None


def number(path: Path | str, scale: float = 1.0) -> float | None:
    """A whole number, times `scale`; None where there is none."""
    found = text(path)
    try:
        return None if found is None else int(found.split()[0]) * scale
    except ValueError:
        return None


def entries(folder: Path, begin: str = "") -> Iterator[Path]:
    """What lies in a folder under names that begin so, in their order; nothing without it."""
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return
    yield from (path for path in found if path.name.startswith(begin))
