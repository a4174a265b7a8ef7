"""A WAV file that comes in pieces: its header first, then samples for as long as there are any."""

from __future__ import annotations

import struct

from edge_runtime.audio.wav import DataChunk
from edge_runtime.dialects.deepgram.query import Format
from edge_runtime.errors import ProtocolError
from edge_runtime.events import Encoding

_HEADER_MAX = 1 << 16
_EXTENSIBLE = 0xFFFE
_ENCODINGS: dict[tuple[int, int], Encoding] = {
    (1, 16): "pcm_s16le", (3, 32): "pcm_f32le", (6, 8): "alaw", (7, 8): "mulaw",
}  # fmt: skip
"""By the format's code and the bits of a sample."""


class WavStream:
    """`format` is known once the header is whole.

    A length that its writer did not know is no end. Where it is one, chunks behind it are left
    out, but what is no chunk is heard: then the length was wrong.
    """

    def __init__(self) -> None:
        self.format: Format | None = None
        self._held = b""
        self._promised = 0
        self._left: int | None = None  # samples up to the promised end, in bytes
        self._over = False

    def push(self, data: bytes) -> bytes:
        """The bytes of samples among these; raises `ProtocolError` where it is no WAV file."""
        data = self._held + data
        self._held = b""
        if self.format is None:
            found = _header(data)
            if found is None:
                self._held = data
                return b""
            self.format, self._promised, begin = found
            data = data[begin:]
            unknown = DataChunk(0, self._promised, 0, b"").unknown
            self._left = None if unknown else self._promised
        return self._samples(data)

    def _samples(self, data: bytes) -> bytes:
        if self._left is None:
            return data
        samples, behind = data[: self._left], data[self._left :]
        self._left -= len(samples)
        padding = self._promised % 2
        if self._over or not behind:
            return samples
        if len(behind) < padding + 4:
            self._held = behind
        elif DataChunk(0, self._promised, 0, behind[padding : padding + 4]).overfull:
            self._left = None
            return samples + behind
        else:
            self._over = True
        return samples


def _header(data: bytes) -> tuple[Format, int, int] | None:
    """The format, how many bytes of samples there shall be, and where they begin."""
    if not (b"RIFF".startswith(data[:4]) and b"WAVE".startswith(data[8:12])):
        raise _bad(
            "the audio has no encoding, and does not begin like a WAV file",
            "Name encoding and sample_rate, or send a WAV file; ffmpeg -f wav makes one.",
        )
    found: Format | None = None
    at = 12
    while len(head := data[at : at + 8]) == 8:
        name, size = struct.unpack("<4sI", head)
        at += 8
        if name == b"data":
            if found is None:
                raise _bad("the WAV file does not say how its samples are written", "Rewrite it.")
            return found, size, at
        if name == b"fmt ":
            if size > 1024:
                break
            if len(data) < at + size:
                return None
            found = _format(data[at : at + size])
        at += size + size % 2
        if at > _HEADER_MAX:
            break
    else:
        return None
    raise _bad(f"the WAV file has no samples within {_HEADER_MAX} bytes", "Rewrite it.")


def _format(chunk: bytes) -> Format:
    if len(chunk) < 16:
        raise _bad("the header of the WAV file is cut short", "Rewrite it.")
    code, channels, rate, _, _, bits = struct.unpack("<HHIIHH", chunk[:16])
    if code == _EXTENSIBLE and len(chunk) >= 26:
        (code,) = struct.unpack("<H", chunk[24:26])
    encoding = _ENCODINGS.get((code, bits))
    if encoding is None:
        raise _bad(
            f"WAV files of {bits} bits (format {code}) are not taken live",
            "Send 16-bit or 32-bit float samples, µ-law or A-law.",
        )
    try:
        return Format(encoding, rate, channels).check()
    except ProtocolError as error:
        raise _bad(error.message, error.fix) from None


def _bad(message: str, fix: str) -> ProtocolError:
    return ProtocolError("DATA-0000", message, fix)
