"""What is not believed, and why."""

import pytest

from edge_runtime.config import Guarding
from edge_runtime.decode import guards

RULE = Guarding(tokens_per_second=8.0, compression=2.4, mean_logprob=-1.0)


def judge(say, text: str, seconds: float = 10.0, sure: float = -0.1, latin: bool = True):
    spans, tokens = say(text)
    return guards.verdict(text, spans, [sure] * len(tokens), seconds, RULE, latin)


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
        assert guards.verdict(text, [], [-0.1], 5.0, RULE, latin=False) is None


def test_a_decode_that_was_not_sure(say) -> None:
    assert judge(say, "Hello world", sure=-1.01) == "logprob"
    assert judge(say, "Hello world", sure=-0.99) is None
