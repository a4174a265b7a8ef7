"""A session is told what is spoken, or guesses what was heard last; finals say which it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Ring
from edge_runtime.config import Config, Serving
from edge_runtime.decode.prompt import Prompt
from edge_runtime.errors import LanguageError
from edge_runtime.session import Options, Session
from tests.unit.session.conftest import MODEL, WORD, Client

PROMPT = Prompt(
    languages={"en": 10, "de": 11}, tasks={"transcribe": 12, "translate": 13}, closing=(14,)
)


def client(options: Options, languages: str = "", knows: tuple[str, ...] = ("en",)) -> Client:
    config = Config(serving=Serving(languages=languages))
    model = replace(MODEL, languages=knows)
    return Client(Session("s", model, config, options, Ring(40 * RATE)), auto=False)


def spoken(made: Client, language: str) -> None:
    """A turn, all of which is heard as `language`."""
    made.speak(4 * WORD)
    while made.session.wants is not None:
        made.answer(made.take(), language=language)
    made.pause(40)
    while made.session.wants is not None:
        made.answer(made.take(), language=language)


def test_what_was_heard_last_is_the_next_guess() -> None:
    made = client(Options())
    spoken(made, "de")
    assert made.updates[0].guess == ""
    assert {update.guess for update in made.updates[1:]} == {"de"}
    spoken(made, "en")
    assert [final.language for final in made.finals] == ["de", "en"]
    assert {(update.language, update.task) for update in made.updates} == {("", "transcribe")}


def test_what_is_heard_is_one_of_the_languages_that_are_spoken_here() -> None:
    knows = ("en", "fr", "de")
    made = client(Options(), "de, fr, xx", knows)
    spoken(made, "fr")
    assert {update.languages for update in made.updates} == {("de", "fr")}
    assert [update.guess for update in made.updates][:2] == ["de", "fr"]
    told = client(Options(language="en"), "de,fr", knows)
    only = client(Options(), "fr", knows)
    others = client(Options(), "xx,yy", knows)
    for each, language in ((told, "en"), (only, "fr"), (others, "")):
        spoken(each, language or "en")
        assert {(update.language, update.languages) for update in each.updates} == {(language, ())}


def test_what_a_client_says_goes_with_every_update() -> None:
    made = client(Options(language="de", task="translate"))
    spoken(made, "de")
    assert made.updates
    assert {(each.language, each.task) for each in made.updates} == {("de", "translate")}


def test_a_model_of_one_language_says_none() -> None:
    made = client(Options())
    spoken(made, "")
    assert [final.language for final in made.finals] == [None]


def test_what_a_model_does_not_know_is_refused() -> None:
    MODEL.check("", "transcribe")
    MODEL.check("en", "transcribe")
    with pytest.raises(LanguageError, match="does not understand 'de'") as refused:
        MODEL.check("de", "transcribe")
    assert "one of en" in refused.value.fix
    with pytest.raises(LanguageError, match="cannot translate"):
        MODEL.check("", "translate")


def test_marks_before_a_text() -> None:
    assert PROMPT.tokens("de") == (11, 12, 14)
    assert PROMPT.tokens(task="translate") == (10, 13, 14)
    assert Prompt(closing=(14,)).tokens("de") == (14,)
    assert PROMPT.marks() == {10, 11}
    assert PROMPT.marks(("de", "xx")) == {11}
    assert Prompt().marks() == frozenset()
    assert (PROMPT.language(11), PROMPT.language(12)) == ("de", "")
    with pytest.raises(LanguageError):
        Prompt(closing=(14,)).tokens(task="translate")
