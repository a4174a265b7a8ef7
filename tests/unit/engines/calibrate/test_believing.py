"""Speech that was believed before is believed after, within bounds."""

from __future__ import annotations

import pytest

from edge_runtime.config import Guarding
from edge_runtime.engines.calibrate.believing import LEAST, believe


@pytest.mark.parametrize(
    ("pairs", "threshold", "said"),
    [
        ([], -1.0, "no text was believed"),
        ([(None, None), (-1.2, -1.4), (-0.3, None)], -1.0, "no text was believed"),
        ([(-0.3, -0.4), (-0.9, -0.95), (-1.2, -1.4)], -1.0, "the least of 2 texts has -0.95"),
        ([(-0.3, -0.4), (-0.95, -1.012)], -1.02, "1 of 2 texts that were believed"),
        ([(-0.9, -1.2), (-0.9, -4.0)], LEAST, "1 of them less than -1.5"),
    ],
)
def test_the_threshold(pairs, threshold, said) -> None:
    found = believe(pairs)
    assert found.threshold == threshold
    assert said in found.reason


def test_it_starts_from_what_is_configured() -> None:
    assert believe([(-0.5, -0.7)], Guarding(mean_logprob=-0.6)).threshold == -0.7
    assert believe([(-0.7, -0.8)], Guarding(mean_logprob=-0.6)).threshold == -0.6
