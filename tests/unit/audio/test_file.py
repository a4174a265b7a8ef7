"""Files of any kind, honest or not, give every sample that is in them."""

import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile

from edge_runtime.audio.file import FileSource
from edge_runtime.errors import AudioError

NOISE = np.random.default_rng(0).integers(-9000, 9000, 16000).astype("<i2")


def wav(promised: int, samples: np.ndarray = NOISE, tail: bytes = b"", riff: int = 0) -> bytes:
    body = samples.tobytes() + tail
    return (
        b"RIFF"
        + struct.pack("<I", riff or 36 + len(body))
        + b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16)
        + b"data"
        + struct.pack("<I", promised)
        + body
    )


def heard(path: Path) -> tuple[np.ndarray, list[str]]:
    """What a file gives by its path, and the same by its bytes."""
    got, warnings = read(path)
    again, same = read(path.read_bytes())
    np.testing.assert_array_equal(got, again)
    assert [line.replace("the file", str(path)) for line in same] == warnings
    return got, warnings


def read(path: Path | bytes) -> tuple[np.ndarray, list[str]]:
    with FileSource(path) as source:
        blocks = list(source)
        assert all(0 < len(block) <= 16000 and block.dtype == np.float32 for block in blocks)
        assert not source.live
        return np.concatenate([*blocks, np.zeros(0, np.float32)]), source.warnings


@pytest.mark.parametrize("kind", ["wav", "flac", "ogg", "mp3", "aiff"])
def test_kinds_of_file(tmp_path: Path, kind: str) -> None:
    tone = (0.5 * np.sin(2 * np.pi * 440 * np.arange(32000) / 16000)).astype(np.float32)
    path = tmp_path / f"tone.{kind}"
    soundfile.write(path, tone, 16000)
    got, warnings = heard(path)
    assert abs(len(got) - 32000) <= (0 if kind in {"wav", "flac", "aiff"} else 2000)
    assert warnings == []
    spectrum = np.abs(np.fft.rfft(got[8000:24000]))
    assert np.argmax(spectrum) == 440
    assert np.sqrt(np.mean(got[8000:24000] ** 2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.02)


@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
def test_rates_and_stereo(tmp_path: Path, rate: int) -> None:
    seconds = np.arange(2 * rate) / rate
    left = 0.6 * np.sin(2 * np.pi * 440 * seconds)
    path = tmp_path / "stereo.wav"
    soundfile.write(path, np.stack([left, 0 * left], axis=1), rate, subtype="FLOAT")
    with FileSource(path) as source:
        assert source.seconds == 2.0
        assert source.name == str(path)
    got, warnings = heard(path)
    wanted = 0.3 * np.sin(2 * np.pi * 440 * np.arange(32000) / 16000)
    assert len(got) == 32000
    np.testing.assert_allclose(got[800:-800], wanted[800:-800], atol=2e-3)
    assert warnings == []


@pytest.mark.parametrize("count", [0, 1])
def test_no_samples_and_one_sample(tmp_path: Path, count: int) -> None:
    path = tmp_path / "short.wav"
    soundfile.write(path, np.full(count, 0.5), 16000)
    got, warnings = heard(path)
    np.testing.assert_array_equal(got, [0.5] * count)
    assert [("no samples" in warning) for warning in warnings] == [True] * (1 - count)


@pytest.mark.parametrize(
    ("data", "warned"),
    [
        (wav(32000), False),
        (wav(32000, tail=b"LIST\x04\x00\x00\x00abcd"), False),
        (wav(64000), True),  # cut short
        (wav(0), False),  # streamed
        (wav(0, riff=0xFFFFFFFF), False),
        (wav(0xFFFFFFFF, riff=0xFFFFFFFF), False),
        (wav(0x7FFFF000, riff=0x7FFFF024), False),
        (wav(16000), True),  # written on after the header was
    ],
)
def test_a_header_that_lies_about_its_length(tmp_path: Path, data: bytes, warned: bool) -> None:
    path = tmp_path / "lies.wav"
    path.write_bytes(data)
    got, warnings = heard(path)
    np.testing.assert_array_equal(got, NOISE.astype(np.float32) / 32768)
    assert bool(warnings) == warned
    if warned:
        assert "there are 32000" in warnings[0]
    with FileSource(path) as source:
        assert source.seconds == 1.0


def test_half_a_sample_at_the_end_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "half.wav"
    path.write_bytes(wav(32000)[:-1])
    got, warnings = heard(path)
    assert len(got) == 15999
    assert len(warnings) == 1


def test_bad_floats_are_mended_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "bad.wav"
    values = np.array([0.5, np.nan, np.inf, 2.0, -0.5], np.float32)
    soundfile.write(path, values, 16000, subtype="FLOAT")
    got, warnings = heard(path)
    np.testing.assert_array_equal(got, [0.5, 0, 0, 1, -0.5])
    assert [warning.split()[0] for warning in warnings] == ["2", "1"]


def test_a_damaged_file_gives_what_comes_before(tmp_path: Path) -> None:
    path = tmp_path / "damaged.flac"
    soundfile.write(path, np.tile(NOISE, 4), 16000)
    data = bytearray(path.read_bytes())
    path.write_bytes(data[: len(data) // 2])
    got, warnings = heard(path)
    assert 16000 < len(got) <= 32000
    np.testing.assert_array_equal(got[:16000], NOISE.astype(np.float32) / 32768)
    assert any("damaged" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "empty"), (b"words, not sound\n" * 9, "not audio"), (wav(32000)[:20], "not audio")],
)
def test_what_is_no_audio_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    for each in (path, content):
        with pytest.raises(AudioError, match=said) as caught:
            FileSource(each)
        assert caught.value.fix
        assert caught.value.message.startswith(str(path) if each == path else "the file")


def test_a_path_to_nothing_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.wav", tmp_path):
        with pytest.raises(AudioError, match="cannot be read") as caught:
            FileSource(path)
        assert "path" in caught.value.fix


def test_a_rate_that_cannot_be_converted_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "slow.wav"
    soundfile.write(path, np.zeros(100), 4000)
    with pytest.raises(AudioError, match="4000 Hz"):
        FileSource(path)


@pytest.mark.parametrize("kind", ["wav", "mp3"])
def test_a_second_reading_starts_again(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"again.{kind}"
    soundfile.write(path, NOISE, 16000)
    with FileSource(path) as source:
        first = np.concatenate(list(source))
        next(iter(source))
        np.testing.assert_array_equal(np.concatenate(list(source)), first)
    assert len(first) >= 16000


def test_warnings_are_of_one_reading(tmp_path: Path) -> None:
    path = tmp_path / "lies.wav"
    path.write_bytes(wav(64000))
    with FileSource(path) as source:
        for _ in range(2):
            list(source)
            assert len(source.warnings) == 1


def test_a_long_file_is_never_held_whole(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    with soundfile.SoundFile(path, "w", 44100, 1, "PCM_16") as file:
        for _ in range(300):
            file.write(np.zeros(44100, np.int16))
    tracemalloc.start()
    with FileSource(path) as source:
        assert source.seconds == 300.0
        count = sum(map(len, source))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 300 * 16000
    assert peak < 5_000_000  # whole it would be 53 MB
