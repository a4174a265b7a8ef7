"""Latencies from event times and the span of speech."""

import pytest

from edge_runtime.bench import latency
from edge_runtime.bench.energy import Span

SPAN = Span(start=8000, end=48000)  # 0.5 s to 3.0 s


def test_the_final_that_closes_the_clip_is_the_last_with_text(said):
    one = said.take(
        said.final(1.5, "One."), said.final(3.55, "Two.", segment=1), said.final(4.5, "", segment=2)
    )
    assert latency.final_after(one, SPAN) == pytest.approx(0.55)
    assert latency.final_after(said.take(said.final(3.0, "  ")), SPAN) is None


def test_the_first_partial_is_the_first_that_shows_text(said):
    one = said.take(
        said.partial(0.7, "", " "), said.partial(0.9, "", "One"), said.partial(1.2, "", "One two")
    )
    assert latency.first_partial_after(one, SPAN.onset) == pytest.approx(0.4)
    assert latency.first_partial_after(said.take(said.final(3.5, "One.")), SPAN.onset) is None


@pytest.mark.parametrize(
    ("shown", "reference", "right"),
    [
        ("Mr. Smith", "MISTER SMITH WENT", True),
        ("And", "A MAN", False),
        ("...", "A MAN", False),
        ("A", "", None),
    ],
)
def test_the_first_word_is_compared_normalised(said, shown, reference, right):
    assert latency.first_word_right(said.take(said.partial(1.0, "", shown)), reference) is right


def test_without_a_partial_no_word_is_right_or_wrong(said):
    assert latency.first_word_right(said.take(said.final(3.5, "A man.")), "A MAN") is None
