"""Raw samples are handed on as they come, and a file with a header is not taken for them."""

import io
import os
import threading

import numpy as np
import pytest

from edge_runtime.audio.raw import RawSource
from edge_runtime.errors import AudioError

NOISE = np.random.default_rng(0).integers(-9000, 9000, 20001).astype("<i2")


def test_a_whole_stream() -> None:
    with RawSource(io.BytesIO(NOISE.tobytes())) as source:
        blocks = list(source)
    assert max(map(len, blocks)) == 1600
    np.testing.assert_array_equal(np.concatenate(blocks), NOISE.astype(np.float32) / 32768)
    assert source.warnings == []
    assert source.seconds is None
    assert not source.live


def test_another_format() -> None:
    values = np.repeat(np.linspace(-1, 1, 48000, dtype="<f4"), 2)
    source = RawSource(io.BytesIO(values.tobytes()), "pcm_f32le", 48000, 2)
    assert sum(map(len, source)) == 16000


def test_samples_of_a_pipe_come_before_a_block_is_full() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stream, os.fdopen(writer, "wb", buffering=0) as pipe:
        blocks = iter(RawSource(stream))
        pipe.write(NOISE[:100].tobytes())
        assert len(next(blocks)) == 100
        pipe.write(NOISE[100:150].tobytes() + b"\x01")
        assert len(next(blocks)) == 50
        threading.Thread(target=pipe.close).start()
        assert list(blocks) == []


def test_half_a_sample_at_the_end_is_reported() -> None:
    source = RawSource(io.BytesIO(NOISE.tobytes() + b"\x01"))
    assert sum(map(len, source)) == len(NOISE)
    assert source.warnings == ["1 bytes at the end are no whole sample and were left out"]


def test_bad_values_are_reported() -> None:
    values = np.array([np.nan, 7, 0.5], "<f4")
    source = RawSource(io.BytesIO(values.tobytes()), "pcm_f32le")
    np.testing.assert_array_equal(np.concatenate(list(source)), [0, 1, 0.5])
    assert len(source.warnings) == 2


def test_no_samples_and_one_sample() -> None:
    source = RawSource(io.BytesIO())
    assert list(source) == []
    assert source.warnings == ["no samples came"]
    source = RawSource(io.BytesIO(b"\x00\x40"))
    assert [block.tolist() for block in source] == [[0.5]]


@pytest.mark.parametrize(
    "head", [b"RIFF\x00\x00\x00\x00WAVE", b"fLaC\x00", b"OggS\x00", b"ID3\x04"]
)
def test_a_file_with_a_header_is_refused(head: bytes) -> None:
    with pytest.raises(AudioError, match="not raw samples") as caught:
        list(RawSource(io.BytesIO(head + bytes(5000))))
    assert "ffmpeg" in caught.value.fix


class Dribble(io.BytesIO):
    """A pipe whose writer sends so many bytes at a time."""

    def __init__(self, data: bytes, size: int = 1) -> None:
        super().__init__(data)
        self._most = size

    def read1(self, size: int = -1, /) -> bytes:
        return super().read1(min(size, self._most))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("head", [b"RIFF\x00\x00\x00\x00WAVE", b"fLaC\x00", b"ID3\x04"])
def test_a_header_is_found_however_small_the_reads(head: bytes, size: int) -> None:
    stream = Dribble(head + bytes(5000), size)
    with pytest.raises(AudioError, match="not raw samples"):
        list(RawSource(stream))
    assert stream.tell() <= 6


@pytest.mark.parametrize("data", [b"RIFX" + bytes(96), b"RI", b"ID\x03\x04", NOISE.tobytes()])
def test_samples_that_begin_almost_like_a_header_are_heard(data: bytes) -> None:
    wanted = np.frombuffer(data, "<i2").astype(np.float32) / 32768
    np.testing.assert_array_equal(np.concatenate(list(RawSource(Dribble(data)))), wanted)


def test_what_cannot_be_a_header_is_handed_on_at_once() -> None:
    stream = Dribble(b"\x00\x40" + bytes(100), 2)
    assert next(iter(RawSource(stream))).tolist() == [0.5]
    assert stream.tell() == 2
