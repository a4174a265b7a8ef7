"""Word errors with counts done by hand."""

import pytest

from edge_runtime import words
from edge_runtime.words import Score


def test_substitutions_deletions_and_insertions_are_counted_apart():
    # "very" inserted, "fox" → "box" substituted, "lazy" deleted
    found = words.score(
        "THE QUICK BROWN FOX JUMPED OVER THE LAZY DOG",
        "The very quick brown box jumped over the dog.",
    )
    assert found == Score(words=9, substitutions=1, deletions=1, insertions=1)
    assert found.rate == pytest.approx(100 / 3)
    assert found.deleted == pytest.approx(100 / 9)


def test_normalisation_forgives_spelling_case_and_punctuation():
    assert words.score("MISTER SMITH'S FAVOURITE COLOUR", "Mr. Smith's favorite color!").errors == 0


def test_an_empty_text_deletes_every_word():
    assert words.score("one word more", "") == Score(3, 0, 3, 0)


def test_words_without_a_reference_are_an_infinite_rate():
    assert words.score("", "You.").rate == float("inf")
    assert words.score("", "").rate == 0.0


def test_a_set_weighs_by_words():
    found = words.total([("a b c d", "a b c d"), ("e f", "e")])
    assert found == Score(6, 0, 1, 0)
    assert found.rate == pytest.approx(100 / 6)


def test_a_changed_word_is_not_a_dropped_one():
    assert words.dropped("he saw the green door", "he saw a green") == ["door"]
    assert words.dropped("he saw", "he saw") == []


def test_a_word_is_lost_when_one_decode_has_it_right_and_the_other_drops_it():
    # "door" was right and is gone; "green" was never right, so its lack is not a loss
    assert words.lost("he saw the green door", "he saw the grin door", "he saw the") == ["door"]
    # one decode splits a word wrongly, the other does not: nothing is lost
    assert words.lost("we tell him", "we tell is him", "we tell him") == []


def test_matched_pairs_skip_what_differs():
    assert words.matched(["a", "b", "c", "d"], ["a", "x", "c", "c", "d"]) in (
        [(0, 0), (2, 2), (3, 4)],
        [(0, 0), (2, 3), (3, 4)],
    )


@pytest.mark.parametrize(
    ("reference", "pieces", "expected"),
    [
        ("the old man sat down", ["the old man", "man sat down"], ["man"]),
        ("the old man sat down", ["the old man", "old man sat down"], ["old", "man"]),
        ("the old man sat down", ["the old", "man sat down"], []),
        ("it was very very late", ["it was very", "very late"], []),  # said twice
        ("the old man sat down", ["the old man", "men sat down"], []),  # another word
        ("red green blue", ["red", "red green", "green blue"], ["red", "green"]),
        ("red green", ["red green"], []),
        ("red green", ["red", "", "green"], []),
    ],
)
def test_words_are_doubled_at_cuts_only_when_they_were_said_once(reference, pieces, expected):
    assert words.doubled(reference, pieces) == expected
