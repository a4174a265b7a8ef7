"""Raw samples without a header, from standard input or any other binary stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import BinaryIO

from edge_runtime.audio import RATE
from edge_runtime.audio.codec import Decoder
from edge_runtime.audio.convert import converted
from edge_runtime.audio.ring import Samples
from edge_runtime.audio.source import BLOCK_MS
from edge_runtime.errors import AudioError
from edge_runtime.events import Encoding

# What begins like a file is one, and its header would be heard as a click.
_HEADERS = {b"RIFF": "WAV", b"fLaC": "FLAC", b"OggS": "Ogg", b"ID3": "MP3"}


class RawSource:
    """Interleaved samples of a known encoding, handed on as soon as they come.

    A pipe is not `live`: its writer waits while nothing is read.
    """

    live = False
    seconds = None

    def __init__(
        self,
        stream: BinaryIO,
        encoding: Encoding = "pcm_s16le",
        rate: int = RATE,
        channels: int = 1,
        name: str = "-",
    ) -> None:
        """Raises `AudioError` for an encoding, rate or number of channels not supported."""
        self.name = name
        self._stream = stream
        self._decoder = Decoder(encoding, rate, channels)
        self._size = max(1, rate * BLOCK_MS // 1000) * self._decoder.frame_bytes
        self._notes: list[str] = []

    @property
    def warnings(self) -> list[str]:
        """What was odd so far: values that had to be mended, half a sample at the end."""
        return [*self._notes, *self._decoder.warnings]

    def __iter__(self) -> Iterator[Samples]:
        """Raises `AudioError` when the stream carries a file with a header."""
        yield from converted(self._pieces(), self._decoder.push, self._decoder.flush)
        if self._decoder.dangling:
            self._notes.append(
                f"{self._decoder.dangling} bytes at the end are no whole sample and were left out"
            )

    def __enter__(self) -> RawSource:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The stream stays open: it belongs to the caller."""

    def _pieces(self) -> Iterator[bytes]:
        """Whatever there is, as soon as there is some."""
        # A buffered pipe's `read` would wait for the whole block, `read1` takes what is there.
        read = getattr(self._stream, "read1", self._stream.read)
        data = self._first(read)
        if not data:
            self._notes.append("no samples came")
        while data:
            yield data
            data = read(self._size)

    def _first(self, read: Callable[[int], bytes]) -> bytes:
        """What comes first, as much of it as tells that it is no file."""
        data = more = read(self._size)
        # A pipe gives as little as one byte at a time.
        while more and any(magic.startswith(data) and magic != data for magic in _HEADERS):
            more = read(self._size)
            data += more
        for magic, kind in _HEADERS.items():
            if data.startswith(magic):
                raise AudioError(
                    f"{self.name} carries a {kind} file, not raw samples",
                    "Give the file's path, or pipe raw samples: "
                    "ffmpeg -i FILE -f s16le -ar 16000 -ac 1 - | …",
                )
        return data
