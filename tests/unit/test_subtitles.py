"""Subtitles are readable: short lines, short cues, in order, at the time of the words."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.events import Final, Word
from edge_runtime.subtitles import LINE, LONGEST, Cue, cues, srt, vtt


def final(text: str, start: float, end: float, words: list[Word] | None = None) -> Final:
    return Final(
        segment=0, turn=0, reason="endpoint", text=text, start=start, end=end, logprob=-0.1,
        words=words,
    )  # fmt: skip


def spoken(*words: tuple[str, float, float]) -> Final:
    made = [Word(text, start, end, -0.1) for text, start, end in words]
    return final(" ".join(w.text for w in made), made[0].start, made[-1].end, made)


def test_a_short_final_is_one_cue_at_its_words() -> None:
    assert cues([spoken(("Hello", 0.5, 0.9), ("there.", 1.0, 2.25))]) == [
        Cue(0.5, 2.25, ("Hello there.",))
    ]


def test_a_blink_of_a_word_stays_a_second() -> None:
    assert cues([spoken(("Yes.", 3.0, 3.2))]) == [Cue(3.0, 4.0, ("Yes.",))]


def test_but_not_over_the_next_cue() -> None:
    first, second = cues([spoken(("Yes.", 3.0, 3.2)), spoken(("No.", 3.5, 3.7))])
    assert (first.end, second.start) == (3.5, 3.5)


def test_without_word_times_they_are_shared_by_length() -> None:
    words = " ".join(["word"] * 30)
    shown = cues([final(words, 10.0, 25.0)])
    assert (shown[0].start, shown[-1].end) == (10.0, 25.0)
    # 30 words of equal length over 15 s: half a second each, 14 (7 s) to a cue at most.
    assert [len(" ".join(cue.lines).split()) for cue in shown] == [14, 14, 2]
    assert shown[1].start == pytest.approx(17.0)


def test_two_lines_are_of_nearly_the_same_length() -> None:
    text = "It was the best of times, it was the worst of times, ok"
    (cue,) = cues([final(text, 0.0, 5.0)])
    assert cue.lines == ("It was the best of times, it", "was the worst of times, ok")


def test_a_pause_and_the_end_of_a_long_sentence_begin_new_cues() -> None:
    shown = cues(
        [
            spoken(("One", 0.0, 0.4), ("two", 2.0, 2.4)),
            final("A sentence that is longer than a whole line. Next one.", 3.0, 8.0),
        ]
    )
    assert [" ".join(cue.lines) for cue in shown] == [
        "One", "two", "A sentence that is longer than a whole line.", "Next one.",
    ]  # fmt: skip


def test_a_word_longer_than_a_line_is_cut() -> None:
    shown = cues([final("x" * 100, 0.0, 3.0)])
    assert "".join(line for cue in shown for line in cue.lines) == "x" * 100
    assert max(len(line) for cue in shown for line in cue.lines) == LINE


def test_srt() -> None:
    assert srt([Cue(0.5, 2.0, ("One",)), Cue(3599.9996, 3661.25, ("Two", "lines"))]) == (
        "1\n00:00:00,500 --> 00:00:02,000\nOne\n\n2\n01:00:00,000 --> 01:01:01,250\nTwo\nlines\n\n"
    )


def test_vtt_escapes_what_would_be_markup() -> None:
    assert vtt([Cue(0.0, 1.5, ("R&B <i>",))]) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nR&amp;B &lt;i&gt;\n\n"
    )


def test_nothing_said_is_an_empty_file() -> None:
    assert (srt(cues([])), vtt(cues([]))) == ("", "WEBVTT\n\n")


TEXTS = st.lists(st.from_regex(re.compile(r"[a-z.?,]{1,60}"), fullmatch=True), max_size=40)


@settings(max_examples=60)
@given(st.lists(st.tuples(TEXTS, st.floats(0.1, 16.0), st.floats(0.0, 3.0)), max_size=5))
def test_always_readable_in_order_and_complete(segments: list[tuple[list[str], float, float]]):
    at, finals = 0.0, []
    for words, seconds, gap in segments:
        finals.append(final(" ".join(words), at, at + seconds))
        at += seconds + gap
    shown = cues(finals)
    assert all(1 <= len(cue.lines) <= 2 for cue in shown)
    assert all(len(line) <= LINE for cue in shown for line in cue.lines)
    assert all(0.0 < cue.end - cue.start <= LONGEST + 1e-6 for cue in shown)
    assert all(a.end <= b.start + 1e-6 for a, b in itertools.pairwise(shown))
    letters = "".join("".join(words) for words, _, _ in segments)
    assert "".join(line for cue in shown for line in cue.lines).replace(" ", "") == letters
