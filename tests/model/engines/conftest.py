"""The published weights, as `edge-runtime pull` has put them into the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import ModelMissing

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def published():
    """The folder of a model's published files; skips where it was not pulled."""

    def folder(name: str) -> Path:
        try:
            return Store().weights(load_recipe(name))
        except ModelMissing as missing:
            pytest.skip(str(missing))

    return folder


@pytest.fixture(scope="session")
def data() -> Path:
    """The shared folder of real clips."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no clips in {folder}")
    return folder
