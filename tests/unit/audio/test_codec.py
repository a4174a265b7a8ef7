"""Bytes cut anywhere become the same samples, and bad values never get through."""

import io

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.audio.codec import Decoder
from edge_runtime.errors import AudioError


def decoded(decoder: Decoder, *messages: bytes) -> np.ndarray:
    return np.concatenate([*map(decoder.push, messages), decoder.flush()])


def test_s16_scales_by_full_scale() -> None:
    data = np.array([0, 1, -1, 16384, 32767, -32768], "<i2").tobytes()
    got = decoded(Decoder("pcm_s16le"), data)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(
        got, np.array([0, 1 / 32768, -1 / 32768, 0.5, 32767 / 32768, -1], np.float32)
    )


def test_f32_is_taken_as_it_is() -> None:
    values = np.array([0, 0.25, -1, 1], "<f4")
    decoder = Decoder("pcm_f32le")
    np.testing.assert_array_equal(decoded(decoder, values.tobytes()), values)
    assert decoder.warnings == []


def test_mulaw_follows_the_formula() -> None:
    """G.711: inverted sign, segment, step; 14-bit magnitude (2 × step + 33) × 2^segment − 33."""
    wanted = []
    for code in range(256):
        bits = f"{code ^ 255:08b}"
        segment, step = int(bits[1:4], 2), int(bits[4:], 2)
        magnitude = ((2 * step + 33) << segment) - 33
        wanted.append((-magnitude if bits[0] == "1" else magnitude) / 8192)
    got = decoded(Decoder("mulaw"), bytes(range(256)))
    np.testing.assert_array_equal(got, np.array(wanted, np.float32))
    assert (got[0x00], got[0x80]) == (-32124 / 32768, 32124 / 32768)
    assert got[0x7F] == got[0xFF] == 0


def test_alaw_is_that_of_libsndfile() -> None:
    codes = bytes(range(256))
    wanted, _ = soundfile.read(
        io.BytesIO(codes), format="RAW", subtype="ALAW", samplerate=8000, channels=1,
        dtype="float32",
    )  # fmt: skip
    got = decoded(Decoder("alaw"), codes)
    np.testing.assert_array_equal(got, wanted)
    assert (got[0xD5], got[0x55], got[0xAA]) == (8 / 32768, -8 / 32768, 32256 / 32768)


def test_bad_floats_are_mended_and_counted() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 1.5, -3, 0.5, 1], "<f4")
    decoder = Decoder("pcm_f32le")
    np.testing.assert_array_equal(
        decoded(decoder, values.tobytes()), np.array([0, 0, 0, 1, -1, 0.5, 1], np.float32)
    )
    assert decoder.warnings == [
        "3 values were NaN or infinite and count as silence",
        "2 values were beyond full scale and were clipped",
    ]


def test_one_bad_value_spoils_no_other_through_the_resampler() -> None:
    values = np.zeros(4800, "<f4")
    values[1000] = np.nan
    got = decoded(Decoder("pcm_f32le", 48000), values.tobytes())
    np.testing.assert_array_equal(got, np.zeros(1600, np.float32))


@given(
    st.sampled_from(["pcm_s16le", "pcm_f32le", "mulaw", "alaw"]),
    st.integers(1, 8),
    st.lists(st.integers(0, 70), min_size=1, max_size=8),
    st.integers(0, 2**32 - 1),
)
def test_bytes_cut_anywhere_give_the_same(
    encoding: str, channels: int, cuts: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.uniform(-1, 1, sum(cuts))
    data = {
        "pcm_s16le": (values * 32767).astype("<i2").tobytes(),
        "pcm_f32le": values.astype("<f4").tobytes(),
        "mulaw": rng.bytes(sum(cuts)),
        "alaw": rng.bytes(sum(cuts)),
    }[encoding][: sum(cuts)]
    messages = np.split(np.frombuffer(data, np.uint8), np.cumsum(cuts)[:-1])
    decoder = Decoder(encoding, channels=channels)  # type: ignore[arg-type]
    got = decoded(decoder, *(message.tobytes() for message in messages))
    whole = Decoder(encoding, channels=channels)  # type: ignore[arg-type]
    np.testing.assert_array_equal(got, decoded(whole, data))
    frame = channels * {"pcm_s16le": 2, "pcm_f32le": 4, "mulaw": 1, "alaw": 1}[encoding]
    assert len(got) == len(data) // frame
    assert decoder.dangling == len(data) % frame


def test_channels_are_averaged() -> None:
    data = np.array([[0.5, -0.25], [1, 0]], "<f4").tobytes()
    np.testing.assert_array_equal(decoded(Decoder("pcm_f32le", channels=2), data), [0.125, 0.5])


def test_an_odd_byte_waits_for_its_other_half() -> None:
    decoder = Decoder("pcm_s16le")
    assert not len(decoder.push(b"\x00"))
    assert decoder.dangling == 1
    np.testing.assert_array_equal(decoder.push(b"\x40\x00"), [0.5])
    assert decoder.dangling == 1
    np.testing.assert_array_equal(decoder.push(memoryview(b"\xc0")), [-0.5])
    assert decoder.dangling == 0


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100, 48000])
@pytest.mark.parametrize("channels", [1, 2])
def test_one_second_is_one_second_at_any_rate(rate: int, channels: int) -> None:
    tone = np.sin(2 * np.pi * 300 * np.arange(rate) / rate) * 16000
    data = np.repeat(tone.astype("<i2"), channels).tobytes()
    got = decoded(
        Decoder("pcm_s16le", rate, channels), *(data[i : i + 999] for i in range(0, len(data), 999))
    )
    assert len(got) == 16000
    wanted = np.sin(2 * np.pi * 300 * np.arange(16000) / 16000) * 16000 / 32768
    np.testing.assert_allclose(got[800:-800], wanted[800:-800], atol=2e-3)


def test_no_samples_and_one_sample() -> None:
    assert not len(decoded(Decoder("pcm_s16le")))
    assert not len(decoded(Decoder("pcm_s16le"), b""))
    assert len(decoded(Decoder("pcm_s16le"), b"\x00\x10")) == 1


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        (("opus", 16000, 1), "pcm_s16le, pcm_f32le, mulaw"),
        (("pcm_s16le", 16001, 1), "8000, 11025"),
        (("pcm_s16le", 0, 1), "192000"),
        (("pcm_s16le", 16000, 0), "1 to 8"),
        (("pcm_s16le", 16000, 9), "1 to 8"),
    ],
)
def test_what_is_not_supported_is_refused(arguments: tuple, fix: str) -> None:
    with pytest.raises(AudioError) as caught:
        Decoder(*arguments)
    assert fix in caught.value.fix
