"""Boards of tests/data/power as trees of files."""

from __future__ import annotations

from pathlib import Path

TREES = Path(__file__).parent / "data" / "power"


def laid(board: str, folder: Path) -> Path:
    """The files of `board` in a folder of `folder`, which takes the place of /."""
    for line in (TREES / f"{board}.txt").read_text().splitlines():
        name, _, content = line.partition("\t")
        path = folder / board / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content == "!":
            path.mkdir()  # reading it fails, whoever reads
        else:
            path.write_text(content.replace("\\n", "\n") + "\n")
    return folder / board
