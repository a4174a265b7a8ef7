"""The packages that only calibration needs."""

from __future__ import annotations

import importlib.util

from edge_runtime.errors import MissingExtra

_PACKAGES = ("jiwer", "whisper_normalizer", "matplotlib", "jinja2")


def check() -> None:
    """Raises `MissingExtra` naming the first that is not there: best before any work is done."""
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(
                f"{package} is not installed", "Run: pip install 'edge-runtime[calibrate]'"
            )
