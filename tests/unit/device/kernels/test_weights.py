"""How weights lie for the kernels that read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edge_runtime.device.kernels import packed


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_lane_finds_its_weights_side_by_side(dtype: Any) -> None:
    rows, columns = 48, 32
    matrix = np.arange(rows * columns).reshape(rows, columns).astype(dtype)
    found = packed(matrix)
    assert found.shape == (2, 3, 32, 8)
    assert found.dtype == dtype
    assert found.flags.c_contiguous
    for across in range(2):
        for down in range(3):
            piece = matrix[16 * down : 16 * down + 16, 16 * across : 16 * across + 16]
            for lane in range(32):
                column, pair = lane // 4, 2 * (lane % 4)
                # The registers a0 to a3 of mma.m16n8k16, whose left operand is (columns, rows).
                wanted = [
                    *piece[pair : pair + 2, column],
                    *piece[pair : pair + 2, column + 8],
                    *piece[pair + 8 : pair + 10, column],
                    *piece[pair + 8 : pair + 10, column + 8],
                ]
                assert found[across, down, lane].tolist() == wanted
