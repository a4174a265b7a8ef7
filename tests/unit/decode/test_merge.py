"""Stable text only grows, by the written rule; the rest of a hypothesis is shown beside it."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.config import Updating
from edge_runtime.decode.merge import Merger, Shown
from edge_runtime.decode.tokens import Span, Vocabulary

RULE = Updating(
    stable_ms=500, stable_after_ms=0, stable_logprob=-0.3, held_back=1, tail_logprob=-0.7
)


@pytest.fixture
def merger() -> Merger:
    return Merger(RULE)


def test_words_become_stable_when_they_stood_long_enough(merger, say) -> None:
    assert merger.partial(*say("Hello world"), heard=1.0) == Shown("", "Hello world")
    assert merger.partial(*say("Hello world you"), heard=1.4) == Shown("", "Hello world you")
    # "Hello" and "world" have stood for 0.5 s now, "you" has not.
    assert merger.partial(*say("Hello world you"), heard=1.5) == Shown("Hello world", " you")
    assert list(merger.prefix) == say("Hello world")[1]


def test_time_counts_and_not_the_number_of_hypotheses(merger, say) -> None:
    """A shorter hop must not lock words sooner."""
    for n in range(10):
        shown = merger.partial(*say("Hello world you"), heard=1.0 + n * 0.05)
        assert shown == Shown("", "Hello world you")
    assert merger.partial(*say("Hello world you"), heard=1.5) == Shown("Hello world", " you")


def test_one_hypothesis_alone_makes_nothing_stable(say) -> None:
    merger = Merger(Updating(stable_ms=0, stable_after_ms=0, held_back=0))
    assert merger.partial(*say("Hello world"), heard=60.0) == Shown("", "Hello world")


def test_a_changed_word_begins_again_with_all_that_follow_it(merger, say) -> None:
    merger.partial(*say("Hello one two three"), heard=1.0)
    merger.partial(*say("Hello four two three"), heard=1.4)
    assert merger.partial(*say("Hello four two three"), heard=1.6) == Shown(
        "Hello", " four two three"
    )
    assert merger.partial(*say("Hello four two three"), heard=1.9) == Shown(
        "Hello four two", " three"
    )


@pytest.mark.parametrize(("held_back", "stable"), [(0, "One two three"), (2, "One")])
def test_words_at_the_end_are_held_back(say, held_back: int, stable: str) -> None:
    merger = Merger(Updating(stable_ms=500, stable_after_ms=0, held_back=held_back))
    merger.partial(*say("One two three"), heard=1.0)
    shown = merger.partial(*say("One two three"), heard=2.0)
    assert shown is not None
    assert shown.stable == stable
    assert shown.stable + shown.unstable == "One two three"


def test_an_unsure_word_stops_the_words_after_it(merger, say) -> None:
    unsure = {"two": -0.31}
    merger.partial(*say("One two three four", unsure), heard=1.0)
    shown = merger.partial(*say("One two three four", unsure), heard=2.0)
    assert shown == Shown("One", " two three four")
    # Once it is sure enough it passes: it has stood all the while.
    shown = merger.partial(*say("One two three four", {"two": -0.3}), heard=2.1)
    assert shown == Shown("One two three", " four")


def test_words_the_length_cap_may_still_cut_are_not_stable(merger, say) -> None:
    frames = {"One": 10, "two": 20, "three": 31, "four": 40}
    for heard in (1.0, 2.0):
        shown = merger.partial(*say("One two three four", frames=frames), heard, until=30.0)
    assert shown == Shown("One two", " three four")


def test_the_last_stable_word_waits_for_its_punctuation(merger, say) -> None:
    for heard in (1.0, 2.0):
        shown = merger.partial(*say("Hello, world. You"), heard)
    assert shown == Shown("Hello, world", ". You")
    assert list(merger.prefix) == say("Hello, world")[1]
    # The newest hypothesis says how it closes.
    assert merger.partial(*say("Hello, world?"), 2.1) == Shown("Hello, world", "?")
    assert merger.partial(*say("Hello, world, you know"), 2.2) == Shown(
        "Hello, world", ", you know"
    )
    assert merger.partial(*say("Hello, world! You, know"), 2.8) == Shown(
        "Hello, world! You", ", know"
    )


def test_spelling_is_no_contradiction(merger, say) -> None:
    for heard in (1.0, 2.0):
        merger.partial(*say("Hello, world you"), heard)
    shown = merger.partial(*say("hello. World you"), 2.1)
    assert shown == Shown("Hello, world", " you")
    assert merger.conflicts == 0


def test_a_contradiction_is_withheld_and_counted(merger, say) -> None:
    for heard in (1.0, 2.0):
        merger.partial(*say("Hello world you"), heard)
    assert merger.partial(*say("Hello there you"), 2.5) is None
    assert merger.partial(*say(""), 2.6) is None
    assert merger.partial(*say("Hello"), 2.7) is None
    assert merger.conflicts == 3
    assert merger.stable == "Hello world"
    assert not merger.agrees(say("Hello there you")[0])
    assert merger.agrees(say("Hello, world.")[0])


def test_nothing_heard_is_nothing_shown(merger, say) -> None:
    assert merger.partial(*say(""), 1.0) == Shown("", "")
    assert merger.partial(*say(""), 2.0) == Shown("", "")
    assert merger.final([]) == ""


def test_a_final_begins_with_the_stable_text(merger, say) -> None:
    for heard in (1.0, 2.0):
        merger.partial(*say("Hello world you"), heard)
    assert merger.final(say("hello world. You know.")[0]) == "Hello world. You know."
    assert merger.final(say("Hello world")[0]) == "Hello world"
    assert merger.final(say("Hello world!")[0]) == "Hello world!"


def test_a_final_of_nothing_stable_is_the_hypothesis(merger, say) -> None:
    merger.partial(*say("Hello world"), 1.0)
    assert merger.final(say("What, no.")[0]) == "What, no."


def test_weak_last_words_are_not_shown(merger, say) -> None:
    shown = merger.partial(*say("Hello world you", {"world": -0.9, "you": -0.8}), 1.0)
    assert shown == Shown("", "Hello")
    shown = merger.partial(*say("Hello world you", {"world": -0.9}), 1.1)
    assert shown == Shown("", "Hello world you")


def test_a_decode_that_found_no_end_loses_its_last_two_words(merger, say) -> None:
    assert merger.partial(*say("One two three four"), 1.0, ended=False) == Shown("", "One two")
    assert merger.partial(*say("One"), 1.1, ended=False) == Shown("", "")


def test_a_loop_is_shown_once(merger, say) -> None:
    looped = "You know " + "no no " * 8
    shown = merger.partial(*say(looped), 1.0)
    assert shown == Shown("", "You know no")


hypotheses = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["One", "two", "three", "no", "what,", "you."]), max_size=6),
        st.floats(0.05, 1.0),
        st.booleans(),
    ),
    max_size=12,
)


@given(hypotheses, st.integers(0, 2), st.integers(0, 900))
def test_stable_text_is_never_taken_back(say, steps, held_back: int, stable_ms: int) -> None:
    merger = Merger(Updating(stable_ms=stable_ms, stable_after_ms=0, held_back=held_back))
    heard = 0.0
    stable = [""]
    for words, seconds, sure in steps:
        heard += seconds
        spans, tokens = say(" ".join(words), None if sure else {"no": -2.0})
        shown = merger.partial(spans, tokens, heard)
        stable.append(merger.stable)
        if shown is None:
            assert stable[-1] == stable[-2]
            assert not merger.agrees(spans)
            continue
        assert shown.stable == merger.stable
        assert merger.final(spans).startswith(merger.stable)
        forced, _ = say(merger.stable)
        assert merger.agrees(forced)
    assert all(later.startswith(before) for before, later in pairwise(stable))


def test_a_first_word_may_be_less_sure_the_longer_nothing_was_shown(say) -> None:
    rule = Updating(tail_logprob=-0.7, eager_logprob=-0.6)
    spans, tokens = say("Hello", {"Hello": -1.0})
    assert Merger(rule).partial(spans, tokens, heard=0.5) == Shown("", "")
    assert Merger(rule).partial(spans, tokens, heard=0.5, eager=1.0) == Shown("", "")
    assert Merger(rule).partial(spans, tokens, heard=0.8, eager=2.0) == Shown("", "Hello")


def test_of_a_text_that_only_grows_all_but_the_last_word_is_stable_at_once(say) -> None:
    merger = Merger(RULE, grows=True)
    unsure = say("Hello world you", sure={"world": -3.0, "you": -3.0})
    assert merger.partial(*unsure, heard=0.4) == Shown("Hello world", " you")
    assert merger.partial(*say("Hello world you and"), heard=0.8) == Shown(
        "Hello world you", " and"
    )
    assert merger.final(say("Hello world you and be")[0]) == "Hello world you and be"


def test_what_may_fall_to_the_next_segment_is_not_stable_whatever_the_model(say) -> None:
    spans, tokens = say("Hello world you and")
    late = [replace(span, frame=100 * place) for place, span in enumerate(spans)]
    shown = Merger(RULE, grows=True).partial(late, tokens, 14.0, until=150)
    assert shown == Shown("Hello world", " you and")


def test_a_script_without_spaces_grows_as_well(merger) -> None:
    told = Vocabulary(
        ["\u4eca\u65e5", "\u306f", "\u3044\u3044", "\u5929\u6c17", "\u3002", "\u2581OK"]
    )

    def said(*tokens: int) -> tuple[list[Span], list[int]]:
        count = len(tokens)
        return told.words(tokens, [-0.05] * count, [9.0] * count, [0] * count), list(tokens)

    merger.partial(*said(0, 1, 2), heard=1.0)
    shown = merger.partial(*said(0, 1, 2, 3), heard=1.6)
    assert shown == Shown("\u4eca\u65e5\u306f\u3044\u3044", "\u5929\u6c17")
    # What follows a stable word goes on right behind it: that takes nothing back.
    shown = merger.partial(*said(0, 1, 2, 3, 4, 5), heard=2.2)
    assert shown == Shown("\u4eca\u65e5\u306f\u3044\u3044\u5929\u6c17", "\u3002 OK")
    assert list(merger.prefix) == [0, 1, 2, 3]
    spans, _ = said(0, 1, 2, 3, 4)
    assert merger.final(spans) == "\u4eca\u65e5\u306f\u3044\u3044\u5929\u6c17\u3002"
    assert not merger.agrees(said(0, 1, 3)[0])
