"""The report: the verdict first, whole in itself, safe against names, the same each time."""

import base64
import importlib.util
import io
import re
from html.parser import HTMLParser

import msgspec
import numpy as np
import pytest
import soundfile

from edge_runtime.engines.calibrate import extra
from edge_runtime.engines.calibrate.gate import Outcome, judge
from edge_runtime.engines.calibrate.ranges import Histogram, choose
from edge_runtime.engines.calibrate.report import (
    Kept,
    Report,
    Seen,
    Sensitivity,
    Table,
    Variant,
    page,
    read,
    write,
)
from edge_runtime.engines.calibrate.report.diff import Piece, diff
from edge_runtime.engines.calibrate.report.sound import addresses
from edge_runtime.engines.calibrate.room import Room
from edge_runtime.errors import MissingExtra, ModelDamaged

TEXT = "a red fox ran over the old stone bridge"
VOID = {"meta", "br", "img", "link", "input", "hr"}


def noise(seconds=1.0, seed=0):
    return np.random.default_rng(seed).normal(0, 0.1, int(16000 * seconds)).astype(np.float32)


def made(quantised=TEXT, drawn=1, **changes):
    outcomes = [Outcome(f"clips/{k}.wav", 4.0, TEXT, TEXT, TEXT) for k in range(60)]
    outcomes[7] = Outcome("clips/<7> & co.wav", 4.0, TEXT, quantised, TEXT)
    histogram = Histogram()
    histogram.add(noise(4))
    (range_,) = choose({"x": histogram}).values()
    report = Report(
        model="moonshine-tiny-en",
        engine="int8",
        verdict=judge(outcomes),
        warnings=("all speech is of one speaker",),
        skipped=(("notes.md", "is not audio"),),
        variants=(
            Variant(name="float32", original=True, bytes=108_000_000, wer=4.0, update_ms=80.0),
            Variant(
                name="int8", chosen=True, bytes=27_000_000, wer=4.1, increase=0.1, low=-0.1,
                high=0.25, update_ms=40.0,
            ),
            Variant(name="fp8", missing="this device has no 8-bit floating point"),
        ),
        sensitivity=tuple(
            Sensitivity(name=f"group {k}", error=10.0**-k, bytes=1000, precision=precision)
            for k, precision in enumerate(("fp16", "int8", "int8"))
        ),
        ranges=tuple(Seen.of(f"tensor $ {k}", range_, histogram) for k in range(drawn)),
        kept=(Kept(name="decoder/norm", precision="fp32", why="costs 0.4 points"),),
        room=Room(-51.0, 20.0, 0.5, "the usual 0.5 is kept: it divides well"),
        tables=(Table(title="Cost by batch", head=("Batch", "ms"), rows=((1, 20.5), (2, None))),),
        settings={"seed": "0"},
        versions={"edge-runtime": "0.1"},
        hardware="a board",
    )  # fmt: skip
    return msgspec.structs.replace(report, **changes)


class Page(HTMLParser):
    """Ids, addresses, text and a check that every element is closed in its turn."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.addresses, self.tags, self.said = [], [], [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.note(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.note(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "title"):
            self.said += data

    def note(self, tag, attrs):
        self.said += " " if tag in ("td", "th", "dt", "dd") else ""
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "srcset", "action", "data"):
                self.addresses.append(value)

    @property
    def words(self):
        return " ".join(self.said.split())


@pytest.fixture(scope="module")
def passed():
    return Page(page(made(TEXT.replace("fox", "box"), drawn=14, verdict=lenient())))


def lenient():
    outcomes = [Outcome(f"{k}", 4.0, TEXT, TEXT, TEXT) for k in range(60)]
    outcomes[7] = Outcome("clips/<7> & co.wav", 4.0, TEXT, TEXT.replace("fox", "box"), TEXT)
    return judge(outcomes, 1.0)


def test_the_verdict_comes_first_in_plain_words(passed):
    assert passed.words.startswith("int8 of moonshine-tiny-en ✓ Passed: the smaller engine writes")
    assert "Judged on 60 recordings that the ranges never saw: 540 words in 4.0 min" in passed.words
    assert "1 of 540 words differ from the unquantised text (0.19 %)" in passed.words


def test_the_figures_that_people_look_for_are_there(passed):
    for said in (
        "Word error rate +0.19 points",
        "Weights 27.0 MB 0.25 × the original's 108.0 MB",
        "One update 40 ms 0.50 × the original's 80 ms",
        "int8 (this engine) 4.10 +0.10 (-0.10 to +0.25)",
        "fp8 this device has no 8-bit floating point",
        "group 0 1 – 1.0 kB fp16",
        "decoder/norm fp32 costs 0.4 points",
        "it is at -51 dB of full scale (median of 20 s)",
        "Cost by batch Batch ms 1 20.5 2 –",
        "Hardware a board seed 0 edge-runtime 0.1",
        "Warnings: 1, files left out: 1 all speech is of one speaker notes.md is not audio",
        "The 12 tensors with the largest error of 14",
    ):
        assert said in passed.words


def test_nothing_is_fetched_and_every_id_is_one_of_its_kind(passed):
    assert all(address.startswith(("data:", "#")) for address in passed.addresses)
    assert "script" not in passed.tags
    assert "link" not in passed.tags
    assert len(set(passed.ids)) == len(passed.ids)
    local = {address[1:] for address in passed.addresses if address.startswith("#")}
    assert local <= set(passed.ids)
    assert passed.tags.count("svg") == 2 + 12


def test_text_in_pictures_has_the_colour_of_the_page():
    text = page(made())
    assert "#010203" not in text
    assert "currentColor" in text
    assert "prefers-color-scheme: dark" in text


def test_names_are_text_and_never_markup(passed):
    assert "clips/<7> & co.wav" in passed.words
    assert "tensor $ 3" in passed.words
    hostile = made("</dd><script>alert(1)</script>", model="<b>", hardware='"><img src=x>')
    shown = Page(page(hostile))
    assert "script" not in shown.tags
    assert "img" not in shown.tags


def test_a_refusal_says_every_reason():
    shown = Page(page(made(TEXT.replace("old stone", ""), refused=("the range of x is wrong",))))
    assert "✗ Refused: the smaller engine was not installed" in shown.words
    assert "the range of x is wrong the word error rate grew by 0.37 points" in shown.words
    forced = Page(page(made(forced=True, refused=("the range of x is wrong",))))
    assert "✗ Refused, and installed by force" in forced.words
    assert "✓ Passed" in Page(page(made(forced=True))).words


def test_worst_clips_show_what_changed_and_play(passed):
    name = "clips/<7> & co.wav"
    shown = page(made(TEXT.replace("fox", "box")), {name: noise(2, 1)})
    words = Page(shown).words
    assert "of 9 words 0 wrong unquantised, 1 quantised; 4.0 s" in words
    assert "a red gone: fox new: box ran over" in words
    address = re.search(r'<audio [^>]*src="data:audio/flac;base64,([^"]+)"', shown)[1]
    back, rate = soundfile.read(io.BytesIO(base64.b64decode(address)), dtype="float32")
    assert rate == 16000
    np.testing.assert_allclose(back, noise(2, 1), atol=2 / 32768)
    assert "audio" not in passed.tags
    assert "its sound would make the page too large" in passed.words


def test_the_sounds_of_a_page_stay_within_a_size():
    sounds = {"a": noise(1), "b": noise(60), "c": noise(1, 2)}
    found = addresses(["a", "b", "c", "d"], sounds, 100_000)
    assert list(found) == ["a", "c"]
    assert sum(map(len, found.values())) <= 100_000


def test_a_report_of_little_is_a_page_too():
    shown = Page(page(Report(model="m", engine="int8", verdict=None, refused=("it broke",))))
    assert "It was not judged" in shown.words
    assert "it broke" in shown.words
    Page(page(Report(model="m", engine="int8", verdict=judge([]))))


def test_two_reports_of_the_same_input_have_the_same_bytes(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        assert write(made(), tmp_path / name, {"clips/1.wav": noise()}).name == "report.html"
    for file in ("report.html", "report.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert read(tmp_path / "a") == made()


def test_a_report_that_is_gone_or_damaged_says_so(tmp_path):
    with pytest.raises(ModelDamaged, match=r"report\.json"):
        read(tmp_path)
    (tmp_path / "report.json").write_text("{}")
    with pytest.raises(ModelDamaged, match="model"):
        read(tmp_path)


def test_a_diff_joins_words_of_the_same_fate():
    assert diff("A red fox ran home.", "a red dead box ran") == [
        Piece("equal", "a red", "a red"),
        Piece("insert", "", "dead"),
        Piece("substitute", "fox", "box"),
        Piece("equal", "ran", "ran"),
        Piece("delete", "home", ""),
    ]
    assert diff("", "") == []
    assert diff("", "you") == [Piece("insert", "", "you")]


def test_what_is_missing_is_named_before_any_work(monkeypatch):
    extra.check()
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "jinja2" else found(name)
    )
    with pytest.raises(MissingExtra, match=r"jinja2 .*edge-runtime\[calibrate\]"):
        extra.check()
