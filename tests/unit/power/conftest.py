"""Boards as trees of files, and one that gets hot."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.boards import laid

Lay = Callable[[str], Path]


@pytest.fixture
def lay(tmp_path: Path) -> Lay:
    """`lay(board)`: its files in a folder that takes the place of /."""

    return partial(laid, folder=tmp_path)
