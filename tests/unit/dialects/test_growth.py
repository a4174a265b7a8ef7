"""Append-only text: its pieces joined are the finals, whatever was stable on the way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.dialects.growth import Growth

TEXTS = st.text(alphabet="ab .\u00e9\n", max_size=12)


@st.composite
def segments(draw):
    """Segments as sessions tell them: stable texts, each a prefix of the next, then the final."""
    told = []
    for text in draw(st.lists(TEXTS, max_size=4)):
        cuts = draw(st.lists(st.integers(0, len(text)), max_size=4).map(sorted))
        told.append(([text[:cut] for cut in cuts], text))
    return told


@given(segments())
def test_the_pieces_joined_are_the_finals_joined_by_spaces(told):
    growth, pieces = Growth(), []
    for stables, final in told:
        pieces += [growth.stable(text) for text in stables]
        pieces.append(growth.final(final))
        assert "".join(pieces) == growth.text
    texts = [final.strip() for _, final in told]
    assert growth.text == " ".join(text for text in texts if text)


@given(segments(), TEXTS)
def test_nothing_is_taken_back_when_a_final_is_not_what_was_stable(told, other):
    """A device that fails in the middle gives an empty final, or another."""
    growth, pieces = Growth(), []
    for stables, final in told:
        pieces += [growth.stable(text) for text in stables]
        pieces.append(growth.final(other if stables else final))
        assert "".join(pieces) == growth.text


def test_a_word_comes_with_the_space_before_it():
    growth = Growth()
    said = [growth.stable(text) for text in ("", "Good", "Good ", "Good morning,")]
    said += [growth.final("Good morning, all."), growth.stable("And"), growth.final("And you?")]
    assert said == ["", "Good", "", " morning,", " all.", " And", " you?"]
    assert growth.text == "Good morning, all. And you?"


def test_what_stays_stable_though_the_final_is_empty_stays_told():
    growth = Growth()
    assert growth.stable("It was") == "It was"
    assert growth.final("") == ""
    assert growth.final("Then more.") == " Then more."
    assert growth.text == "It was Then more."
