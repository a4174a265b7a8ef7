"""Recordings for calibration: what is found, what is left out and said, what is refused."""

import numpy as np
import pytest
import soundfile

from edge_runtime.engines.calibrate.clips import load
from edge_runtime.errors import CalibrationError

RATE = 16000


def noise(seconds, seed=0, level=0.1):
    return np.random.default_rng(seed).normal(0, level, int(seconds * RATE)).astype(np.float32)


def wav(folder, name, samples, rate=RATE, subtype="FLOAT"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate, subtype=subtype)
    return path


def names(clips):
    return [clip.name for clip in clips]


@pytest.fixture
def folder(tmp_path):
    """Two minutes: six speakers' recordings, the first in a folder of its own."""
    for k in range(6):
        wav(tmp_path, f"{'a/' if not k else ''}{k + 1}00-7-000{k}.wav", noise(20, k))
        (tmp_path / f"{'a/' if not k else ''}{k + 1}00-7-000{k}.txt").write_text(f" word {k}\n")
    return tmp_path


def test_recordings_are_found_with_the_texts_beside_them(folder):
    clips = load(folder)
    assert names(clips) == [
        "200-7-0001.wav", "300-7-0002.wav", "400-7-0003.wav", "500-7-0004.wav",
        "600-7-0005.wav", "a/100-7-0000.wav",
    ]  # fmt: skip
    assert [clip.transcript for clip in clips][:2] == ["word 1", "word 2"]
    first = clips.clips[0]
    assert (first.speaker, first.chapter, first.seconds) == ("200", "200-7", 20.0)
    np.testing.assert_array_equal(first.samples, noise(20, 1))
    assert clips.seconds == 120
    assert clips.warnings == clips.skipped == ()


def test_any_rate_and_channels_become_16_khz_mono(tmp_path):
    seconds = np.arange(70 * 44100) / 44100
    left = 0.5 * np.sin(2 * np.pi * 440 * seconds)
    wav(tmp_path, "a.flac", np.stack([left, 0 * left], axis=1), 44100, "PCM_16")
    (tmp_path / "a.txt").write_text("tone")
    (clip,) = load(tmp_path)
    assert clip.samples.dtype == np.float32
    assert clip.seconds == pytest.approx(70, abs=0.01)
    wanted = 0.25 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)
    np.testing.assert_allclose(clip.samples[RATE : 2 * RATE], wanted, atol=2e-3)


def test_what_is_no_recording_is_named_and_left_out(folder):
    (folder / "notes.md").write_text("not sound\n" * 20)
    (folder / "empty.wav").write_bytes(b"")
    (folder / ".hidden.wav").write_bytes(b"")
    (folder / ".git").mkdir()
    (folder / ".git" / "x.wav").write_bytes(b"")
    wav(folder, "nothing.wav", noise(0))
    wav(folder, "click.wav", noise(0.05))
    wav(folder, "digital silence.wav", np.zeros(RATE))
    wav(folder, "twin.wav", noise(20, 3))
    clips = load(folder)
    assert len(clips) == 6
    said = dict(clips.skipped)
    assert said.pop("notes.md") == "is not audio that can be read: Format not recognised"
    assert said.pop("empty.wav") == "is empty"
    assert said.pop("nothing.wav") == "holds no samples"
    assert said.pop("click.wav") == "holds only 0.050 s"
    assert said.pop("digital silence.wav") == "holds nothing but digital silence"
    # the one that has a transcript is kept
    assert said == {"twin.wav": "is the same audio as 400-7-0003.wav"}


def test_values_that_no_microphone_sends_are_warned_of(folder):
    broken = noise(20, 9)
    broken[5:8] = np.nan
    wav(folder, "broken.wav", broken)
    (folder / "broken.txt").write_text("word")
    clips = load(folder)
    assert clips.warnings == ("broken.wav: 3 values were NaN or infinite and count as silence",)
    clip = next(clip for clip in clips if clip.name == "broken.wav")
    assert np.isfinite(clip.samples).all()


def test_an_empty_folder_a_missing_one_and_one_without_audio_are_told_apart(tmp_path):
    with pytest.raises(CalibrationError, match="holds no files") as caught:
        load(tmp_path)
    assert "Add recordings" in caught.value.fix
    with pytest.raises(CalibrationError, match="there is no"):
        load(tmp_path / "none")
    (tmp_path / "a.md").write_text("words\n" * 20)
    with pytest.raises(CalibrationError, match=r"none of the 1 files .*\(a\.md: is not audio"):
        load(tmp_path)


def test_too_little_speech_is_refused_with_the_minutes(tmp_path):
    wav(tmp_path, "a.wav", noise(30))
    with pytest.raises(CalibrationError, match=r"0\.5 minutes of speech, and at least 1\.0"):
        load(tmp_path)
    assert load(tmp_path, least=0.5).seconds == pytest.approx(30)


def test_only_what_is_heard_as_speech_counts(folder):
    with pytest.raises(CalibrationError, match=r"0\.6 minutes of speech"):
        load(folder, speech=lambda samples: len(samples) / RATE * 0.3)


def test_what_nobody_speaks_in_counts_as_no_speech(folder):
    (folder / "manifest.tsv").write_text(
        "id\ttranscript\tcondition\n"
        + "".join(f"{k + 1}00-7-000{k}\t\tnon-speech noise\n" for k in range(4))
    )
    with pytest.raises(CalibrationError, match=r"0\.7 minutes of speech"):
        load(folder)
    clips = load(folder, least=0.5)
    assert [len(clips.speech), len(clips.speechless)] == [2, 4]


def test_a_long_recording_without_transcript_is_cut_where_it_is_quiet(tmp_path):
    samples = noise(61)
    for second in (14, 27, 40, 53):
        samples[second * RATE : second * RATE + 1600] = 0
    wav(tmp_path, "long.wav", samples)
    clips = load(tmp_path).clips
    assert names(clips)[0] == "long.wav 0000.00-0014.05 s"
    np.testing.assert_array_equal(np.concatenate([clip.samples for clip in clips]), samples)
    ends = np.cumsum([clip.seconds for clip in clips])
    np.testing.assert_allclose(ends[:4], [14.05, 27.05, 40.05, 53.05], atol=0.06)
    assert {clip.source for clip in clips} == {"long.wav"}
    assert load(tmp_path / "long.wav").clips == clips
    (tmp_path / "long.txt").write_text("all of its words")
    assert names(load(tmp_path)) == ["long.wav"]


@pytest.mark.parametrize("seconds", [16.0, 16.01, 17.0, 28.2, 32.1])
def test_no_piece_is_too_long_or_too_short(tmp_path, seconds):
    wav(tmp_path, "a.wav", noise(seconds))
    lengths = [clip.seconds for clip in load(tmp_path, least=0.1)]
    assert sum(lengths) == pytest.approx(seconds)
    assert all(0.9 <= length <= 16 for length in lengths)


def test_more_than_enough_is_not_read(folder):
    clips = load(folder, most=1.0)
    assert len(clips) == 3
    assert clips.warnings == ("3 more files were not read: 1 minutes are enough",)
    assert load(folder, most=1.0).clips == clips.clips


def test_of_a_very_long_recording_the_beginning_is_used(tmp_path):
    wav(tmp_path, "a.wav", noise(90))
    clips = load(tmp_path, most=1.0)
    assert clips.seconds == pytest.approx(60)
    assert clips.warnings == ("a.wav: only its first 1 minutes are used",)


def test_one_speaker_is_warned_of_only_where_it_is_known(tmp_path):
    for k in range(3):
        wav(tmp_path, f"100-7-000{k}.wav", noise(20, k))
    (only,) = load(tmp_path, least=0.9).warnings
    assert "all speech is of one speaker (100)" in only
    wav(tmp_path, "someone.wav", noise(20, 9))
    assert load(tmp_path, least=0.9).warnings == ()


def test_transcripts_can_be_forgotten(folder):
    clips = load(folder).without_transcripts(["300-7-0002.wav"])
    assert [clip.transcript for clip in clips][:3] == ["word 1", None, "word 3"]


def test_lines_about_recordings_that_are_not_there_are_warned_of(folder):
    (folder / "manifest.tsv").write_text("path\ttext\n200-7-0001.wav\tother\ngone.wav\tlost\n")
    clips = load(folder)
    assert clips.clips[0].transcript == "other"
    assert clips.warnings == ("1 transcripts are of recordings that are not there: gone",)


def test_what_is_too_long_to_decode_at_once_is_cut_or_left_out(tmp_path):
    wav(tmp_path, "said.wav", noise(41))
    (tmp_path / "said.txt").write_text("word")
    wav(tmp_path, "short.wav", noise(39, 1))
    (tmp_path / "short.txt").write_text("word")
    wav(tmp_path, "empty.wav", noise(90, 2))
    (tmp_path / "empty.txt").write_text("")
    clips = load(tmp_path).decodable()
    assert [(clip.name, clip.seconds) for clip in clips] == [("empty.wav", 40), ("short.wav", 39)]
    assert clips.skipped == (("said.wav", "is 41 s long and has one transcript: 40 s do"),)
