"""Figures, targets, and figures made of two others."""

import pytest

from edge_runtime.bench.figure import Figure, Figures, Target, shown
from edge_runtime.bench.targets import DERIVED, TARGETS, derive


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (4.737, "4.74"),
        (0.02649, "0.0265"),
        (573.4, "573"),
        (12.0, "12"),
        (1234.5, "1,234"),
        (-62.4, "-62.4"),
        (float("inf"), "∞"),
    ],
)
def test_numbers_have_three_digits(value, text):
    assert shown(value) == text


def test_a_target_is_reached_at_its_limit():
    most, least = Target("a", "≤", 0.3), Target("b", "≥", 50)
    assert most.reached(0.1 + 0.2)  # 0.30000000000000004
    assert not most.reached(0.301)
    assert least.reached(50)
    assert not least.reached(49.9)


def test_differences_and_ratios_follow_from_what_was_measured():
    figures = Figures(
        [
            Figure("wer.streamed", "", 5.25, "%"),
            Figure("wer.whole", "", 4.75, "%"),
            Figure("cpu", "", 0.2),
            Figure("peer.cpu", "", 0.4),
            Figure("joined.wer", "", 5.0),
            Figure("joined.clips", "", None),
        ]
    )
    derive(figures)
    assert figures.value("wer.above") == pytest.approx(0.5)
    assert figures.value("cpu.of_peer") == pytest.approx(0.5)
    assert figures.get("joined.above") is None
    assert figures.get("file.above") is None


def test_a_ratio_to_nothing_is_left_out():
    figures = Figures([Figure("cpu", "", 0.2), Figure("peer.cpu", "", 0.0)])
    derive(figures)
    assert figures.get("cpu.of_peer") is None


def test_every_name_is_given_once():
    assert len({target.figure for target in TARGETS}) == len(TARGETS)
    assert len({derived.name for derived in DERIVED}) == len(DERIVED)
