"""Words taken back between displays, counted by hand."""

import pytest

from edge_runtime.bench import flicker
from edge_runtime.bench.flicker import Flicker


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        ("a b c", "a b c d", 0),
        ("a b c", "a b x", 1),
        ("a b c", "x b c", 3),  # from the first difference on, all is taken back
        ("a b c", "a b", 1),
        ("", "a", 0),
    ],
)
def test_changed_words(before, after, count):
    assert flicker.changed(before.split(), after.split()) == count


def test_punctuation_and_case_do_not_flicker_but_are_counted_literally():
    found = flicker.of_displays(["The quick.", "the quick brown."], "The quick brown fox.")
    # literal: "The" is not "the", so both words of the first display
    assert found == Flicker(partials=0, final=0, literal=2, words=4)


def test_the_finals_own_changes_are_apart():
    found = flicker.of_displays(["one", "one too", "one two tree"], "one two three")
    assert found == Flicker(partials=1, final=1, literal=1, words=3)


def test_takes_are_summed_over_segments(said):
    one = said.take(
        said.partial(0.5, "", "a"),
        said.partial(1.0, "", "b"),
        said.final(1.5, "b"),
        said.partial(2.0, "c", " d", segment=1),
        said.partial(2.5, "c", " e", segment=1),
        said.final(3.0, "c e f", segment=1),
    )
    assert flicker.of([one, one]) == Flicker(partials=4, final=0, literal=4, words=8)


def test_a_segment_without_a_final_has_no_words(said):
    one = said.take(said.partial(0.5, "", "a"), said.partial(1.0, "", "b"))
    assert flicker.of([one]) == Flicker(1, 0, 1, 0)
