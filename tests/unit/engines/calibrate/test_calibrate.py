"""A whole calibration of a made-up model: the same each time, taken up again, or refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile

from edge_runtime.engines import variants
from edge_runtime.engines.calibrate import report
from edge_runtime.engines.calibrate import scheme as schemes
from edge_runtime.engines.calibrate.calibrate import COSTS, HEARD, REFUSED, calibrate
from edge_runtime.engines.calibrate.clips import Clip
from edge_runtime.engines.calibrate.options import Options
from edge_runtime.engines.calibrate.ranges import Range
from edge_runtime.engines.calibrate.split import split
from edge_runtime.engines.calibrate.watch import STEPS, Watch
from edge_runtime.errors import CalibrationError

SAME = ("encoder.onnx", "embedding.onnx", "layers_0_1.onnx", "layers_1_3.onnx", "table.npy",
        "scheme.json", "shape.json", "vocabulary.json", "report.json", "calibration.json",
        HEARD)  # fmt: skip


class Hearing(Watch):
    """Remembers what it is told, and is interrupted when a step is so far."""

    def __init__(self, until: str = "", done: int = 0) -> None:
        self.steps: list[str] = []
        self.warnings: list[str] = []
        self._until, self._done = until, done

    def step(self, name: str, done: int, total: int) -> None:
        assert 0 <= done <= total
        if name not in self.steps:
            self.steps.append(name)
        if name == self._until and done == self._done:
            raise KeyboardInterrupt

    def said(self, warning: str) -> None:
        self.warnings.append(warning)


@pytest.fixture(scope="session")
def options(recordings) -> Options:
    # made-up weights write what they like: any text does
    return Options(recordings, max_wer_increase=1e6)


@pytest.fixture(scope="session")
def first(made_up, ready, options, tmp_path_factory):
    """A calibration that nothing disturbed: its result, and what it said."""
    from edge_runtime.engines.store import Store

    root = shutil.copytree(ready, tmp_path_factory.mktemp("first") / "store")
    watch = Hearing()
    return calibrate(made_up, Store(root), options, watch), watch


def test_it_is_installed_with_all_that_tells_of_it(first, options) -> None:
    result, watch = first
    folder = result.installed
    names = {path.name for path in folder.iterdir()}
    assert names >= {*SAME, COSTS, "report.html", "manifest.json", "recipe.json"}
    assert watch.steps == list(STEPS)
    assert not list(folder.parent.glob(".calibration-*"))
    made = report.read(folder)
    assert made.passed
    assert not made.forced
    rows = [each.name for each in made.variants]
    assert rows[:3] == ["float32", "calibrated", "float16"]
    assert rows[3:] == ["int8 weights alone", "int4 weights", "FP8"]
    assert all(each.missing for each in made.variants[2:])
    assert made.chosen.bytes < made.original.bytes
    (guards,) = [each for each in made.tables if each.title == "Thresholds of the guards"]
    assert [row[:2] for row in guards.rows] == [("guarding.mean_logprob", -1.0)]
    assert made.chosen.encode_ms is None  # times are not in it, but in the page
    assert result.timed.chosen.encode_ms > 0
    assert "Time on one thread of this CPU" in (folder / "report.html").read_text()
    heard = (folder / HEARD).read_text().splitlines()
    assert heard == sorted(path.name for path in options.audio.glob("*.wav"))


def test_parts_are_apart_and_speakers_too(first) -> None:
    (recordings,) = [each for each in first[0].report.tables if each.title == "Recordings"]
    parts: dict[str, set[str]] = {}
    for name, _, speaker, part in recordings.rows:
        parts.setdefault(part, set()).add(speaker or name)
    assert set(parts) == {"ranges", "the gate"}
    assert not parts["ranges"] & parts["the gate"]


def test_it_serves_once_it_is_there(first, made_up) -> None:
    from edge_runtime.engines.store import Store

    folder = first[0].installed
    active = variants.active(Store(folder.parents[1]), made_up)
    assert active.folder == folder
    assert active.info.wer_increase == first[0].report.verdict.increase


@pytest.mark.parametrize(
    ("step", "done"),
    [
        ("writing their texts", 11),
        ("counting values", 10),
        ("judging", 0),
    ],
)
def test_an_interrupted_one_goes_on_and_comes_to_the_same(
    first, made_up, store, options, step, done
) -> None:
    with pytest.raises(KeyboardInterrupt):
        calibrate(made_up, store, options, Hearing(step, done))
    assert not variants.variants(store)
    watch = Hearing()
    result = calibrate(made_up, store, options, watch)
    assert "a calibration of the same input was interrupted, and is continued" in watch.warnings
    for name in SAME:
        ours, theirs = result.installed / name, first[0].installed / name
        assert ours.read_bytes() == theirs.read_bytes(), name


def ruined(store, made_up, options, times: float) -> str:
    """Interrupt after the ranges are chosen, and make one of them wrong; its name."""
    with pytest.raises(KeyboardInterrupt):
        calibrate(made_up, store, options, Hearing("measuring groups"))
    (kept,) = store.root.glob(f"{made_up.name}/.calibration-*/ranges.json")
    ranges = msgspec.json.decode(kept.read_bytes(), type=dict[str, Range])
    name = "model.decoder.layers.1.mlp.fc1.weight"
    ranges[name] = msgspec.structs.replace(ranges[name], absmax=times * ranges[name].absmax)
    kept.write_bytes(msgspec.json.encode(ranges))
    return name


@pytest.mark.parametrize("times", [10.0, 0.1])
def test_a_scale_that_is_ten_times_off_is_refused_by_name(made_up, store, options, times) -> None:
    name = ruined(store, made_up, options, times)
    result = calibrate(made_up, store, options)
    assert result.installed is None
    (why,) = result.report.refused
    assert name in why
    assert f"1 of {len(result.report.ranges)} tensors" in why
    assert result.page == store.root / made_up.name / REFUSED / "report.html"
    assert report.read(result.page.parent) == result.report
    assert not variants.variants(store)
    assert not list(store.root.glob(f"{made_up.name}/.calibration-*"))


def test_force_installs_it_marked(made_up, store, options) -> None:
    ruined(store, made_up, options, 10.0)
    result = calibrate(made_up, store, replace(options, force=True, candidate=True))
    assert result.report.forced
    (one,) = variants.variants(store)
    assert one.info.forced
    assert variants.active(store, made_up) is None
    assert variants.candidate(store, made_up).folder == result.installed


def test_ranges_from_silence_alone_are_refused_by_name(made_up, store, tmp_path) -> None:
    names = [f"{number}00-7-0000.wav" for number in range(1, 9)]
    part = split([Clip(name, name, np.zeros(10 * 16000, np.float32), None, name) for name in names])
    random = np.random.default_rng(0)
    for number, name in enumerate(names):
        silent = name in {clip.name for clip in part.ranges}
        level = 1e-7 * (1 + number) if silent else 0.1
        sound = random.normal(0, level, 10 * 16000).astype(np.float32)
        soundfile.write(tmp_path / name, sound, 16000, "FLOAT")
    with pytest.raises(CalibrationError, match=r"minutes of speech"):
        calibrate(made_up, store, Options(tmp_path))
    result = calibrate(made_up, store, Options(tmp_path, least=0.1, max_wer_increase=1e6))
    assert result.installed is None
    (why,) = result.report.refused
    assert "tensors do not fit audio that they never saw: model.encoder.conv1.weight: " in why


def test_a_text_that_got_worse_is_refused_and_nothing_changes(made_up, store, options) -> None:
    page = store.root.parent / "page"
    asked = replace(options, max_wer_increase=-1e6, report=page)
    result = calibrate(made_up, store, asked)
    assert result.installed is None
    assert result.page == page / "report.html"
    assert any("points" in reason for reason in result.report.reasons)
    assert result.report.sensitivity
    # all was tried
    assert len(result.mix.tried[-1].wide) == len(result.mix.ranked)
    assert not variants.variants(store)


def test_transcripts_that_do_not_match_are_named(made_up, store, options, tmp_path, first) -> None:
    audio = shutil.copytree(options.audio, tmp_path / "audio")
    texts = {row.outcome.name: row.outcome.original for row in first[0].report.verdict.worst}
    for number, path in enumerate(sorted(audio.glob("1*.wav"))):
        said = texts.get(path.name, "nothing like it") if number else "nothing like it"
        path.with_suffix(".txt").write_text(said)
    with pytest.raises(CalibrationError, match=r"transcripts do not match.*-7-"):
        calibrate(made_up, store, replace(options, audio=audio))


def test_one_wrong_transcript_is_left_out_and_one_speaker_is_warned_of(
    made_up, store, options, tmp_path
) -> None:
    audio = tmp_path / "audio"
    audio.mkdir()
    for number, path in enumerate(sorted(options.audio.glob("1*.wav"))):
        shutil.copyfile(path, audio / f"100-7-{number:04}.wav")
    (audio / "100-7-0003.txt").write_text("nothing like it")
    (audio / "notes.pdf").write_bytes(b"%PDF")
    watch = Hearing("counting values")
    with pytest.raises(KeyboardInterrupt):
        calibrate(made_up, store, replace(options, audio=audio), watch)
    said = "\n".join(watch.warnings)
    assert "100-7-0003.wav: its transcript does not match, 1000 % word errors; left out" in said
    assert "all speech is of one speaker (100)" in said


def test_a_full_disk_installs_nothing_and_says_so(made_up_path, store, options) -> None:
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from edge_runtime.engines.calibrate.calibrate import calibrate\n"
        "from edge_runtime.engines.calibrate.options import Options\n"
        "from edge_runtime.engines.recipe import load_recipe\n"
        "from edge_runtime.engines.store import Store\n"
        "from edge_runtime.errors import StoreUnwritable\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "recipe, store = load_recipe(sys.argv[1]), Store(sys.argv[2])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "try:\n"
        "    calibrate(recipe, store, Options(Path(sys.argv[3]), max_wer_increase=1e6))\n"
        "except StoreUnwritable as error:\n"
        "    sys.stdout.write(str(error))\n"
    )
    line = [sys.executable, "-c", code, str(made_up_path), str(store.root), str(options.audio)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("no space left"), done.stderr
    assert not variants.variants(store)


def test_what_another_recipe_made_is_not_used(first, made_up, store) -> None:
    """Neither found, nor served: it names what differs and the line that makes it anew."""
    from edge_runtime.errors import EngineMismatch

    folder: Path = first[0].installed
    shutil.copytree(folder, store.root / made_up.name / folder.name)
    variants.promote(store, made_up.name, folder.name)
    other = msgspec.structs.replace(
        made_up, architecture=msgspec.structs.replace(made_up.architecture, theta=500.0)
    )
    with pytest.raises(EngineMismatch, match=r"recipe .*Run: edge-runtime calibrate"):
        variants.active(store, other)


def test_the_scheme_is_what_the_report_says(first) -> None:
    result, _ = first
    scheme = schemes.load(result.installed)
    wide = {group.name for group in result.report.kept}
    by_name = {name: group for group in result.mix.ranked for name in group.products}
    assert set(scheme.products) == set(by_name)
    for name, product in scheme.products.items():
        assert (product.precision == "int8") == (by_name[name].name not in wide), name


def test_speed_can_be_the_target_and_the_room_can_be_heard(made_up, store, options) -> None:
    random = np.random.default_rng(1)
    hum = store.root.parent / "room.wav"
    soundfile.write(hum, random.normal(0, 1e-5, 15 * 16000), 16000, "FLOAT")
    result = calibrate(made_up, store, replace(options, target="speed", room=hum))
    assert result.installed
    assert all(each.seconds is not None for each in result.mix.ranked)
    assert result.report.settings["target"] == "speed"
    assert result.report.room.seconds > 15
    assert result.report.room.floor_db == pytest.approx(-100, abs=3)
