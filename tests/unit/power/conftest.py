"""Boards as trees of files, and one that gets hot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

TREES = Path(__file__).parents[2] / "data" / "power"

Lay = Callable[[str], Path]


@pytest.fixture
def lay(tmp_path: Path) -> Lay:
    """`lay(board)`: its files in a folder that takes the place of /."""

    def laid(board: str) -> Path:
        for line in (TREES / f"{board}.txt").read_text().splitlines():
            name, _, content = line.partition("\t")
            path = tmp_path / board / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content == "!":
                path.mkdir()  # reading it fails, whoever reads
            else:
                path.write_text(content.replace("\\n", "\n") + "\n")
        return tmp_path / board

    return laid
