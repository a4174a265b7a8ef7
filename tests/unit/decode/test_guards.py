"""What is not believed, and why."""

import pytest

from edge_runtime.config import Guarding
from edge_runtime.decode import guards

RULE = Guarding(tokens_per_second=8.0, compression=2.4, mean_logprob=-1.0)


def judge(
    say, text: str, seconds: float = 10.0, sure: float = -0.1, languages=("en",), silence=-9.0
):
    spans, tokens = say(text)
    return guards.verdict(text, spans, [sure] * len(tokens), seconds, RULE, languages, silence)


def test_ordinary_speech_is_believed(say) -> None:
    assert judge(say, "Hello world, what you know? No, not one.") is None


def test_no_text_needs_no_reason(say) -> None:
    assert judge(say, "") is None


def test_more_tokens_than_can_be_spoken(say) -> None:
    text = "One two three four one two three one two one three two one four one three two"
    assert len(say(text)[1]) == 17
    assert judge(say, text, seconds=2.0) == "rate"
    assert judge(say, text, seconds=2.2) is None
    # The shortest audio counts as a second: a word may have many tokens.
    assert judge(say, "One two three, four.", seconds=0.2) is None


def test_loops_of_words_and_of_phrases(say) -> None:
    assert judge(say, "no no no") is None
    assert judge(say, "no, no, No! no.") == "loop"
    assert judge(say, "What " + "you know " * 4) == "loop"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("one two three", "one two three"),
        ("no no no no", "no"),
        ("hello no no no no no", "hello no"),
        ("you know, you know, you know, you know, yes", "you know,"),
        ("you know you know you know", "you know you know you know"),
        ("", ""),
    ],
)
def test_a_loop_ends_with_its_first_round(say, text: str, kept: str) -> None:
    spans, _ = say(text)
    assert " ".join(span.text for span in guards.without_loop(spans)) == kept


def test_text_that_says_little(say) -> None:
    # Long phrases three times over are no loop by words.
    phrase = "there you know what the world and i know or not so "
    assert judge(say, phrase * 3) == "compression"
    assert judge(say, phrase) is None


def test_letters_the_language_does_not_write(vocabulary) -> None:
    for text, reason in (("Привет", "script"), ("你好", "script"), ("Crème, naïve 1 €", None)):
        assert guards.verdict(text, [], [-0.1], 5.0, RULE) == reason
        assert guards.verdict(text, [], [-0.1], 5.0, RULE, languages=("xx",)) is None


def test_a_decode_that_was_not_sure(say) -> None:
    assert judge(say, "Hello world", sure=-1.01) == "logprob"
    assert judge(say, "Hello world", sure=-0.99) is None


@pytest.mark.parametrize(
    ("text", "language", "reason"),
    [
        ("\u041f\u0440\u0438\u0432\u0435\u0442, Alice", "ru", None),
        ("\u041f\u0440\u0438\u0432\u0435\u0442", "de", "script"),
        ("\u041f\u0440\u0438\u0432\u0435\u0442", "ja", "script"),
        ("\u6771\u4eac\u3078\u884c\u304f", "ja", None),
        ("\u3078", "zh", "script"),
        ("Gr\u00fc\u00dfe", "de", None),
        ("\u03b3\u03b5\u03b9\u03ac", "el", None),
        ("\u03b3\u03b5\u03b9\u03ac", "unknown", None),
    ],
)
def test_letters_belong_to_the_language(text: str, language: str, reason: str | None) -> None:
    assert guards.verdict(text, [], [-0.1], 5.0, RULE, languages=(language,)) == reason


def test_a_language_of_several_may_be_any_of_them() -> None:
    text = "\u03b3\u03b5\u03b9\u03ac"
    assert guards.verdict(text, [], [-0.1], 5.0, RULE, languages=("en", "el")) is None
    assert guards.verdict(text, [], [-0.1], 5.0, RULE, languages=("en", "de")) == "script"


def test_words_that_are_not_sure_are_not_believed_where_silence_is_likely(say) -> None:
    assert judge(say, "What you know", sure=-0.7, silence=-0.2) == "silence"
    assert judge(say, "What you know", sure=-0.4, silence=-0.2) is None
    assert judge(say, "What you know", sure=-0.7, silence=-0.8) is None
