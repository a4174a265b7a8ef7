"""Stable text: held or taken back, how much, how early."""

import pytest

from edge_runtime.bench import stability
from edge_runtime.bench.stability import Stability


def test_stable_text_that_only_grows_is_kept(said):
    one = said.take(
        said.partial(0.5, "", "The quick"),
        said.partial(1.0, "The quick", " brown"),
        said.partial(1.5, "The quick brown", " fox"),
        said.final(2.0, "The quick brown fox."),
    )
    assert stability.of([one]) == Stability(0, 0, words=4, stable=3, conflicts=0)


def test_stable_text_that_changes_is_counted_each_time(said):
    one = said.take(
        said.partial(0.5, "The quick", ""),
        said.partial(1.0, "The quack", ""),  # taken back
        said.partial(1.5, "", "The quack"),  # taken back again
        said.final(2.0, "The quick."),
    )
    assert stability.of([one]).taken_back == 2


def test_a_final_must_begin_with_the_last_stable(said):
    broken = said.take(said.partial(0.5, "The quick", ""), said.final(1.0, "A quick fox."))
    assert stability.of([broken]).broken == 1
    # nothing became stable: nothing to break
    unsure = said.take(said.partial(0.5, "", "The"), said.final(1.0, "A."))
    assert stability.of([unsure]).broken == 0


def test_segments_are_judged_apart(said):
    one = said.take(
        said.partial(0.5, "One", ""),
        said.final(1.0, "One."),
        said.partial(1.5, "", "Two", segment=1),
        said.partial(2.0, "Two", "", segment=1),
        said.final(2.5, "Two three.", segment=1),
    )
    assert stability.of([one]) == Stability(0, 0, words=3, stable=2, conflicts=0)


def test_conflicts_are_the_stable_words_that_the_free_text_has_otherwise(said):
    one = said.take(
        said.partial(0.5, "He saw the door", ""),
        said.final(1.0, "He saw the door open.", alternative="He saw a door open."),
    )
    assert stability.of([one]) == Stability(0, 0, words=5, stable=4, conflicts=1)


@pytest.mark.parametrize(
    ("stable", "text", "distance"),
    [
        ("a b c", "a b c d e", 0),
        ("a b c", "a x c d e", 1),
        ("a b c", "a c d e", 1),
        ("a b", "x y z", 2),
        ("a b", "", 2),
        ("", "a b", 0),
    ],
)
def test_distance_to_a_beginning(stable, text, distance):
    assert stability.distance_to_prefix(stable.split(), text.split()) == distance


def test_a_word_locks_at_the_first_partial_that_holds_it_stable(said):
    one = said.take(
        said.partial(0.5, "", "One two"),
        said.partial(1.0, "One", " two", end=0.9),
        said.partial(1.5, "One two", "", end=1.4),
        said.final(2.0, "One two."),
        said.partial(2.5, "Three", "", segment=1, end=2.4),
        said.final(3.0, "Three four.", segment=1),
    )
    assert [(x.word, x.at, x.heard) for x in stability.locked(one)] == [
        (0, 1.0, 0.9),
        (1, 1.5, 1.4),
        (2, 2.5, 2.4),
    ]


def test_plain_words_have_no_case_or_punctuation():
    assert stability.plain("“Don't,” she SAID — well-known.") == [
        "don't",
        "she",
        "said",
        "wellknown",
    ]
