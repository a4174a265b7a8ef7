"""Token numbers become text and words: bytes, marks, punctuation, spaces."""

from pathlib import Path

import pytest

from edge_runtime.decode.tokens import Vocabulary, key
from edge_runtime.errors import ModelDamaged, ModelMissing

TOKENS = [
    "<unk>", "<s>", "</s>", "<<ST_1>>", "\u2581cr", "\u00e8", "me", "<0xE2>", "<0x82>", "<0xAC>",
    "\u2581", ".", "\u2581don", "'", "t", "\u2581\u2581a", "<0x20>", "...", "\u2581-",
    "<0xE4><0xB8>", "<0xAD>",
]  # fmt: skip
(
    CR,
    E,
    ME,
    X1,
    X2,
    X3,
    SPACE,
    STOP,
    DON,
    APOSTROPHE,
    T,
    WIDE_A,
    BLANK,
    DOTS,
    DASH,
    ZHONG_1,
    ZHONG_2,
) = range(4, 21)


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary(TOKENS)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ([], ""),
        ([CR, E, ME], "cr\u00e8me"),
        ([X1, X2, X3], "\u20ac"),
        ([CR, E, ME, SPACE, X1, X2, X3], "cr\u00e8me \u20ac"),
        ([1, CR, E, ME, 2, 0, 3], "cr\u00e8me"),
        ([DON, APOSTROPHE, T, STOP], "don't."),
        ([CR, X1, X2], "cr"),  # a character that is not all there yet
        ([CR, X1, X2, T], "cr\ufffdt"),
        ([CR, BLANK, T], "cr t"),
        ([ZHONG_1, ZHONG_2], "\u4e2d"),
    ],
)
def test_text(vocabulary: Vocabulary, tokens: list[int], text: str) -> None:
    assert vocabulary.text(tokens) == text


def test_words_begin_at_spaces_and_know_their_tokens(vocabulary: Vocabulary) -> None:
    tokens = [CR, E, ME, STOP, DON, APOSTROPHE, T]
    logprobs = [-0.1, -0.5, -0.3, -0.9, 0.0, -0.25, -0.5]
    frames = [3, 9, 7, 8, 20, 22, 21]
    margins = [4.0, 2.0, 3.0, 0.5, 5.0, 6.0, 7.0]
    first, second = vocabulary.words(tokens, logprobs, margins, frames)
    assert (first.text, first.bare, first.key) == ("cr\u00e8me.", "cr\u00e8me", "cr\u00e8me")
    assert (first.first, first.last, first.bare_last) == (0, 4, 3)
    assert first.logprob == pytest.approx(-0.45)
    assert (first.weakest, first.margin, first.frame) == (-0.5, 2.0, 9)
    assert (second.text, second.bare, second.key) == ("don't", "don't", "dont")
    assert (second.first, second.last, second.bare_last) == (4, 7, 7)
    assert second.frame == 22


def test_a_script_without_spaces_has_a_word_at_each_token() -> None:
    told = Vocabulary(["\u6771\u4eac", "\u3078", "\u884c\u304f", "\u3002", "\u2581OK", "\u30fc"])
    words = told.words([0, 1, 2, 3, 4, 0], [-0.1] * 6, [9.0] * 6, [0] * 6)
    assert [(word.text, word.spaced) for word in words] == [
        ("\u6771\u4eac", False),
        ("\u3078", False),
        ("\u884c\u304f\u3002", False),
        ("OK", True),
        ("\u6771\u4eac", False),
    ]
    assert words[2].bare == "\u884c\u304f"
    (half,) = Vocabulary(["<0xE4><0xB8>", "<0xAD>"]).words([0, 1], [-0.1] * 2, [9.0] * 2, [0] * 2)
    assert half.text == "\u4e2d"


def test_a_character_of_several_tokens_is_one_word(vocabulary: Vocabulary) -> None:
    (word,) = vocabulary.words([SPACE, X1, X2, X3], [-0.1] * 4, [9.0] * 4, [0] * 4)
    assert word.text == "\u20ac"
    assert word.key == "\u20ac"
    assert (word.first, word.last) == (0, 4)


def test_marks_make_no_words(vocabulary: Vocabulary) -> None:
    assert vocabulary.words([1, 2], [0.0, 0.0], [9.0, 9.0], [0, 0]) == []


def test_what_is_only_punctuation_stays(vocabulary: Vocabulary) -> None:
    (word,) = vocabulary.words([DOTS, STOP], [-0.1] * 2, [9.0] * 2, [0] * 2)
    assert (word.text, word.bare, word.bare_last) == ("....", "....", 1)
    (dash,) = vocabulary.words([DASH], [-0.1], [9.0], [0])
    assert dash.key == "-"


def test_the_tail_keeps_the_space_before_it(vocabulary: Vocabulary) -> None:
    tokens = [CR, E, ME, STOP, DON, SPACE]
    assert vocabulary.tail(tokens, 3) == ". don"
    assert vocabulary.tail(tokens, 4) == " don"
    assert vocabulary.tail(tokens, 6) == ""


def test_words_are_joined_as_the_text_has_them(vocabulary: Vocabulary) -> None:
    tokens = [CR, E, ME, SPACE, X1, X2, X3, STOP, DON, WIDE_A]
    words = vocabulary.words(tokens, [0.0] * len(tokens), [9.0] * len(tokens), [0] * len(tokens))
    assert " ".join(word.text for word in words) == "cr\u00e8me \u20ac. don a"
    assert vocabulary.text(tokens).split() == [word.text for word in words]


@pytest.mark.parametrize(
    ("one", "other"), [("Hello,", "hello"), ("IT'S", "it\u2019s"), ("Stra\u00dfe", "STRASSE")]
)
def test_spellings_of_a_word_share_a_key(one: str, other: str) -> None:
    assert key(one) == key(other)


def test_words_of_no_letters_differ() -> None:
    assert key("-") != key("\u20ac")
    assert key("10") != key("100")


def test_a_folder_without_a_vocabulary_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"vocabulary.json .*edge-runtime pull"):
        Vocabulary.load(tmp_path)
    (tmp_path / "vocabulary.json").write_text('["a", 1]')
    with pytest.raises(ModelDamaged, match=r"vocabulary.json.*--again"):
        Vocabulary.load(tmp_path)
    (tmp_path / "vocabulary.json").write_text('["<s>", "\u2581a"]')
    assert Vocabulary.load(tmp_path).text([0, 1]) == "a"
