"""What a WAV header promises, and what is there: headers lie when a writer streams or dies."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

# Writers that cannot know the length yet say zero, the maximum, or a little under 2 GiB.
_UNKNOWN_FROM = 0x7FFFF000


@dataclass(frozen=True)
class DataChunk:
    """Where the samples of a WAV file lie: byte offsets and sizes.

    `promised` is the size in the header (which stands at `size_at`), `present` what the
    file holds from the data's beginning to its end; `tail` is what follows the promised
    data, at most four bytes: the name of the next chunk, if all is well.
    """

    size_at: int
    promised: int
    present: int
    tail: bytes

    @property
    def unknown(self) -> bool:
        """The writer streamed and did not say a length."""
        return self.promised == 0 or self.promised >= _UNKNOWN_FROM

    @property
    def truncated(self) -> bool:
        """The header promises more than there is."""
        return not self.unknown and self.promised > self.present

    @property
    def overfull(self) -> bool:
        """There are samples after the data: what follows is no chunk."""
        return (
            not self.unknown
            and len(self.tail) == 4
            and not all(32 <= byte < 127 for byte in self.tail)
        )

    @property
    def open_ended(self) -> bool:
        """A reader should go on to the end of the file, whatever the header says."""
        return self.overfull or (self.unknown and self.present > 0)


def find_data(file: BinaryIO) -> DataChunk | None:
    """The data chunk of a RIFF WAV file open at its beginning; None for anything else."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    head = file.read(12)
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        return None
    while len(head := file.read(8)) == 8:
        name, promised = struct.unpack("<4sI", head)
        start = file.tell()
        if name == b"data":
            file.seek(start + promised + promised % 2)
            return DataChunk(start - 4, promised, max(0, size - start), file.read(4))
        file.seek(start + promised + promised % 2)
    return None


class OpenEnded(io.FileIO):
    """A WAV file whose data chunk reads as of unknown length, and so goes on to the end."""

    def __init__(self, path: Path, size_at: int) -> None:
        super().__init__(path, "rb")
        self._size_at = size_at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read on, with all ones where the size stands."""
        start = self.tell()
        count = super().readinto(buffer) or 0
        octets = memoryview(buffer)
        for at in range(max(start, self._size_at), min(start + count, self._size_at + 4)):
            octets[at - start] = 0xFF
        return count
