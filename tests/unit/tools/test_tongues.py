"""Clips of many languages: which prompts there are, how they are joined, how texts are judged."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import soundfile
from tongues import judge, prompts
from tongues.clips import PAUSE, clips
from tongues.prompts import Prompt

from edge_runtime.audio import RATE


@pytest.fixture
def prompt(tmp_path):
    """`prompt(text, seconds)`: a recording on disk."""
    made = []

    def make(text, seconds=3.0):
        path = tmp_path / f"{len(made):02}.wav"
        soundfile.write(path, np.full(round(seconds * RATE), 0.25), RATE)
        made.append(Prompt(path, text))
        return made[-1]

    return make


def test_sentences_are_joined_in_order_to_so_many_clips(prompt) -> None:
    listed = [
        prompt("one"),
        prompt("this is the first sentence"),
        prompt("press 1 for the second one"),
        prompt("this is the first sentence"),
        prompt("here is a longer [noise] one"),
        prompt("a sentence of sixteen whole seconds", 16),
        prompt("here comes the second sentence", 5),
        prompt("and the third one follows", 9),
        prompt("the fourth is too late", 9),
    ]
    first, second = clips(listed, 2, words=False)
    assert first.text == "this is the first sentence here comes the second sentence"
    assert first.names == ["01.wav", "06.wav"]
    assert first.seconds == pytest.approx(8 + PAUSE)
    assert first.samples[3 * RATE + 100] == 0
    assert (second.text, second.seconds) == ("and the third one follows", 9)
    assert len(list(clips(listed, 9, words=False))) == 3


def test_words_are_joined_as_they_are(prompt) -> None:
    (clip,) = clips([prompt("eye"), prompt("eye"), prompt("nose")], 1, words=True)
    assert clip.text == "eye eye nose"


def test_texts_are_found_beside_their_recordings(tmp_path) -> None:
    home = tmp_path / "usr/share/asterisk/sounds/fr_CA"
    (home / "digits").mkdir(parents=True)
    for name in ("agent", "digits/1", "silent"):
        (home / f"{name}.wav").touch()
    page = tmp_path / "core-sounds-fr.txt.gz"
    page.write_bytes(gzip.compress("\ufeff; x: y\nagent: Déjà: là.\ndigits/1: un\n".encode()))
    found = {each.text: each.path.name for each in prompts.telephone("fr", [tmp_path, tmp_path])}
    assert found == {"Déjà: là.": "agent.wav", "un": "1.wav"}

    script = tmp_path / "usr/share/games/fillets-ng/script/cave/dialogs_cs.lua"
    script.parent.mkdir(parents=True)
    script.write_text(
        'dialogId("a", "font", "Hi.")\ndialogStr("Ty \\"rybo\\"!")\n\ndialogId("b", "f", "No.")\n'
        'dialogStr("Ne.")\n'
    )
    sounds = tmp_path / "usr/share/games/fillets-ng/sound/cave/cs"
    sounds.mkdir(parents=True)
    (sounds / "a.ogg").touch()
    assert [each.text for each in prompts.fish("cs", [tmp_path, tmp_path])] == ['Ty "rybo"!']

    (tmp_path / "cat_desc_el.ogg").touch()
    (tmp_path / "cat.txt").write_text("A cat.\nel.utf8=Μία γάτα.\nes.utf8=Un gato.\n")
    assert [each.text for each in prompts.stamps("el", [tmp_path])] == ["Μία γάτα."]


def test_a_language_is_judged_by_all_its_clips() -> None:
    heard = [
        judge.Heard("a", 8.0, [], "Добър ден", "bg", "добър, ден!", [("bg", 3.0), ("ru", 1.0)]),
        judge.Heard("b", 8.0, [], "Лека нощ", "ru", "leka нощ", [("bg", 4.0)]),
    ]
    row = judge.row("bg", heard, words=False)
    assert (row["right"], row["found"], row["wer"]) == (1, ["bg", "ru"], 25.0)
    assert (row["script"], row["finals_right"]) == (pytest.approx(73.3), 87.5)
    assert "peer_right" not in row
    for each in heard:
        each.peer = {"found": "bg", "probability": 0.5, "text": each.said}
    row = judge.row("bg", heard, words=False)
    assert (row["peer_right"], row["peer_same"], row["peer_wer"]) == (2, 1, 0.0)
    assert judge.row("bg", heard, words=True)["wer"] is None
