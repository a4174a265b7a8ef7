"""Audio from a file of any kind that libsndfile reads, a block at a time."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import soundfile

from edge_runtime.audio.convert import Converter, converted
from edge_runtime.audio.ring import Samples
from edge_runtime.audio.source import BLOCK_MS
from edge_runtime.audio.wav import OpenEnded, find_data
from edge_runtime.errors import AudioError

_CONVERT = "Convert it first, for example: ffmpeg -i FILE -ar 16000 -ac 1 out.wav"


class _Forward(soundfile.SoundFile):  # type: ignore[misc]
    """A sound file read from beginning to end.

    soundfile seeks after each read of a file that can, and an MP3 whose frames borrow
    bits from earlier ones comes out damaged at each of these seeks.
    """

    def seekable(self) -> bool:
        return False


class FileSource:
    """A sound file (WAV, FLAC, Ogg, MP3 …): channels averaged, resampled, never held whole.

    Iterating again starts again. A file that is damaged further on gives what comes
    before the damage, and a warning. A file may also be given as its bytes, and a name for them.
    """

    live = False

    def __init__(
        self,
        file: str | os.PathLike[str] | bytes,
        block_ms: int = BLOCK_MS,
        name: str | None = None,
    ) -> None:
        """Opens the file; raises `AudioError` when it is missing, empty or not audio."""
        self._source = file if isinstance(file, bytes) else Path(file)
        self.name = name or str(file if not isinstance(file, bytes) else "the file")
        self._block_ms = block_ms
        self._header: list[str] = []
        self._damage: list[str] = []
        self._patched: BinaryIO | None = None
        self._begun = False
        self._file = self._open()
        self._rate: int = self._file.samplerate
        try:
            self._converter = Converter(self._rate)
        except AudioError:
            self._close()
            raise

    @property
    def channels(self) -> int:
        """How many there are."""
        count: int = self._file.channels
        return count

    @property
    def seconds(self) -> float | None:
        """The file's length, None where its format does not say."""
        frames: int = self._file.frames
        seconds = frames / self._rate
        # Formats without a length answer with the largest integer.
        return seconds if seconds < 1e9 else None

    @property
    def warnings(self) -> list[str]:
        """What was odd so far: a lying header, damage, values that had to be mended."""
        return [*self._header, *self._damage, *self._converter.warnings]

    def __iter__(self) -> Iterator[Samples]:
        if self._begun:
            self._close()
            self._file = self._open()
        self._begun = True
        self._damage = []
        converter = self._converter = Converter(self._rate)
        yield from converted(self._blocks(), converter.push, converter.flush)

    def __enter__(self) -> FileSource:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _blocks(self) -> Iterator[Samples]:
        """Blocks (n, channels) at the file's own rate, up to its end or to the first damage."""
        frames = max(1, self._rate * self._block_ms // 1000)
        read = 0
        while True:
            try:
                block = self._file.read(frames, dtype="float32", always_2d=True)
            except soundfile.LibsndfileError as error:
                self._damage.append(
                    f"{self.name} is damaged after {read / self._rate:.2f} s, "
                    f"and only read up to there: {error.error_string}"
                )
                break
            if not len(block):
                break
            read += len(block)
            yield block
        if not read:
            self._damage.append(f"{self.name} holds no samples")

    def _open(self) -> Any:
        self._header = []
        self._patched = None
        try:
            with self._raw() as file:
                empty = not file.read(1)
                chunk = find_data(file)
        except OSError as error:
            raise AudioError(
                f"{self.name} cannot be read: {error.strerror}",
                "Check the path and its permissions.",
            ) from error
        if empty:
            raise AudioError(f"{self.name} is empty", "Record or copy it again.")
        if chunk is not None and chunk.open_ended:
            self._patched = self._open_ended(chunk.size_at)
        if chunk is not None and (chunk.truncated or chunk.overfull):
            self._header.append(
                f"the header of {self.name} promises {chunk.promised} bytes of samples, but there "
                f"are {chunk.present}, which are read"
            )
        try:
            return _Forward(self._patched or self._whole())
        except soundfile.LibsndfileError as error:
            if self._patched is not None:
                self._patched.close()
            raise AudioError(
                f"{self.name} is not audio that can be read: {error.error_string}", _CONVERT
            ) from error

    def _raw(self) -> BinaryIO:
        source = self._source
        return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")

    def _whole(self) -> str | BinaryIO:
        source = self._source
        return io.BytesIO(source) if isinstance(source, bytes) else str(source)

    def _open_ended(self, size_at: int) -> BinaryIO:
        source = self._source
        if isinstance(source, bytes):
            return io.BytesIO(source[:size_at] + b"\xff" * 4 + source[size_at + 4 :])
        return OpenEnded(source, size_at)

    def _close(self) -> None:
        self._file.close()
        if self._patched is not None:
            self._patched.close()
