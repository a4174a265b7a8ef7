"""OpenAI's translations: a model that does it answers, and its text is English."""

from __future__ import annotations

import json

import pytest

from edge_runtime.dialects import Asked
from edge_runtime.dialects.openai.translations import Translations
from edge_runtime.dialects.openai.wrong import Wrong
from edge_runtime.events import Final
from edge_runtime.transcript import Transcript

SERVED = {"small-en": ("en",), "large": ("de", "en"), "larger": ("de", "en", "fr")}
ASKED = Asked(
    model="small-en", languages=("en",), models=SERVED, translators=["large", "larger"]
)  # fmt: skip
SAID = Final(
    segment=1, turn=1, reason="endpoint", text="Good day.", start=0.0, end=1.0, logprob=-0.5,
    language="de",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "chosen"), [("whisper-1", "large"), ("large", "large"), ("larger", "larger")]
)
def test_a_model_that_translates_answers(name, chosen):
    dialect = Translations(ASKED, {"model": [name], "language": ["de"]})
    assert (dialect.asked.chosen, dialect.task, dialect.language) == (chosen, "translate", "de")


def test_a_model_that_does_not_is_refused_and_those_that_do_are_named():
    with pytest.raises(Wrong, match=r"small-en does not translate\. .+ large, larger"):
        Translations(ASKED, {"model": ["small-en"]})
    alone = Asked(model="small-en", languages=("en",), models={"small-en": ("en",)})
    with pytest.raises(Wrong, match=r"small-en does not translate\. Serve a model") as caught:
        Translations(alone, {"model": ["whisper-1"]})
    assert caught.value.param == "model"


def test_the_text_is_english_whatever_was_spoken():
    dialect = Translations(ASKED, {"model": ["whisper-1"], "response_format": ["verbose_json"]})
    said = json.loads(dialect.whole(Transcript("the file", 1.5, (SAID,))).data)
    assert (said["task"], said["language"], said["text"]) == ("translate", "english", "Good day.")
