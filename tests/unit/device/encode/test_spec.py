"""Sizes that follow from the dimensions of an encoder."""

from __future__ import annotations

import pytest

from edge_runtime.device.encode.spec import expected
from tests.unit.device.encode.test_compile import SPEC


@pytest.mark.parametrize(("samples", "frames"), [(128_000, 332), (32_000, 82), (126, 0)])
def test_frames_are_those_of_three_unpadded_convolutions(samples: int, frames: int) -> None:
    assert SPEC.frames(samples)[2] == frames
    if frames:
        assert frames == (((samples - 127) // 64 + 1 - 7) // 3 + 1 - 3) // 2 + 1


def test_windows_are_whole_chunks() -> None:
    assert SPEC.depths == (128, 7 * 288, 3 * 576)
    shapes = expected(SPEC)
    assert shapes["conv1"] == (128, 288)
    assert shapes["memory"] == (288, 2 * 6 * 320)
    assert len(shapes) == 6 * 8 + 8
