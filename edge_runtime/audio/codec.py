"""Audio as it comes over a wire, any byte at a time, to the samples that are worked on."""

from __future__ import annotations

import functools
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from edge_runtime.audio import RATE
from edge_runtime.audio.convert import Converter
from edge_runtime.audio.ring import Samples
from edge_runtime.errors import AudioError
from edge_runtime.events import Encoding

RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 88200, 96000, 192000)
"""Sample rates that a client may send."""

CHANNELS_MAX = 8

Bytes = bytes | bytearray | memoryview

_TYPES: dict[str, np.dtype[Any]] = {
    "pcm_s16le": np.dtype("<i2"),
    "pcm_f32le": np.dtype("<f4"),
    "mulaw": np.dtype("u1"),
    "alaw": np.dtype("u1"),
}


class Decoder:
    """Bytes of interleaved samples to 16 kHz mono float32; channels are averaged.

    `frame_bytes` is the size of one sample of every channel. Only `pcm_f32le` can carry
    values that have to be mended.
    """

    def __init__(self, encoding: Encoding, rate: int = RATE, channels: int = 1) -> None:
        """Raises `AudioError` for an encoding, rate or number of channels not supported."""
        if encoding not in _TYPES:
            raise AudioError(
                f"unknown encoding {encoding!r}", f"Use one of {', '.join(get_args(Encoding))}."
            )
        if rate not in RATES:
            raise AudioError(
                f"a sample rate of {rate} Hz is not supported",
                f"Use one of {', '.join(map(str, RATES))}.",
            )
        if not 1 <= channels <= CHANNELS_MAX:
            raise AudioError(
                f"{channels} channels are not supported", f"Send 1 to {CHANNELS_MAX} channels."
            )
        self._type = _TYPES[encoding]
        self._encoding = encoding
        self._channels = channels
        self.frame_bytes = self._type.itemsize * channels
        self._converter = Converter(rate)
        self._carry = b""

    @property
    def warnings(self) -> list[str]:
        """Sentences about the values that had to be mended, none when there were none."""
        return self._converter.warnings

    @property
    def dangling(self) -> int:
        """Bytes held back because they are not a whole sample of every channel yet."""
        return len(self._carry)

    def push(self, data: Bytes) -> Samples:
        """The samples that these bytes complete, float32 (n,)."""
        whole = self._carry + bytes(data) if self._carry else data
        size = len(whole) - len(whole) % self.frame_bytes
        self._carry = bytes(whole[size:])
        values = np.frombuffer(whole, self._type, size // self._type.itemsize)
        samples = self._decode(values)
        if self._channels > 1:
            samples = samples.reshape(-1, self._channels)
        return self._converter.push(samples)

    def flush(self) -> Samples:
        """What the resampler held back. Audio may go on: after it, a new stream begins.

        Bytes of an incomplete sample stay, for the rest of it (see `dangling`).
        """
        return self._converter.flush()

    def _decode(self, values: NDArray[Any]) -> Samples:
        if self._encoding == "pcm_s16le":
            scaled: Samples = values.astype(np.float32) * np.float32(1 / 32768)
            return scaled
        if self._encoding in _COMPANDED:
            heard: Samples = _COMPANDED[self._encoding]()[values]
            return heard
        return values.astype(np.float32)


@functools.cache
def _mulaw() -> Samples:
    """The 256 values of G.711 µ-law, as shares of full scale (ITU-T G.711, table 2)."""
    code = ~np.arange(256, dtype=np.uint8)
    exponent = (code >> 4 & 7).astype(np.int32)
    magnitude = ((code & 15).astype(np.int32) * 8 + 132 << exponent) - 132
    return (np.where(code & 128, -magnitude, magnitude) / 32768).astype(np.float32)


@functools.cache
def _alaw() -> Samples:
    """The 256 values of G.711 A-law, as shares of full scale (ITU-T G.711, table 1)."""
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    exponent = (code >> 4 & 7).astype(np.int32)
    mantissa = (code & 15).astype(np.int32) * 16 + 8
    magnitude = np.where(exponent > 0, mantissa + 256 << np.maximum(exponent - 1, 0), mantissa)
    return (np.where(code & 128, magnitude, -magnitude) / 32768).astype(np.float32)


_COMPANDED = {"mulaw": _mulaw, "alaw": _alaw}
