"""What the small models share: random weights, notes, files as their publishers lay them out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from edge_runtime.engines.export.graph import GraphWriter


class RandomWriter(GraphWriter):
    """Makes up the weights that it is asked for, the same ones every time."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name)
        self._random = np.random.default_rng(seed)
        self._drawn = 0

    def drawn(self, *shape: int, scale: float = 1.0) -> str:
        self._drawn += 1
        values = self._random.normal(0, scale / np.sqrt(shape[0]), shape)
        return self.weight(values.astype(np.float32), f"weight_{self._drawn}")

    def linear(self, x: str, rows: int, columns: int, scale: float = 1.0) -> str:
        return self.matmul(x, self.drawn(rows, columns, scale=scale))


def publish(g: GraphWriter, path: Path, notes: dict[str, object], opset: int = 13) -> None:
    model = g.model()
    model.opset_import[0].version = opset
    helper.set_model_props(model, {key: str(value) for key, value in notes.items()})
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, str(path))


def tokens(path: Path, count: int, blank: int) -> None:
    """Words of one or two letters, most of them with a space before; blank is the one named so."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    lines = []
    for number in range(count):
        text = ("\u2581" if number % 3 else "") + letters[number % 26] + letters[number // 26]
        lines.append(f"{'<blk>' if number == blank else text} {number}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
