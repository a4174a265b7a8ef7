"""What a shared library says of itself: which libraries it needs, and where its sections lie."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

_PROGRAM = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr: type, flags, offset, address, _, size, _, _
_SECTION = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr: name, type, flags, address, offset, size, …
_DYNAMIC = struct.Struct("<QQ")  # Elf64_Dyn: tag, value
_LOAD, _DYNAMICS = 1, 2
_NEEDED, _STRINGS = 1, 5
_MOST = 4096  # entries of a table; more is a damaged file


class Elf:
    """A 64-bit little-endian ELF file; a context, since the file stays mapped.

    Layouts are those of the ELF-64 object file format. Raises `ValueError` for a file that is
    none or is cut short, `OSError` for one that cannot be read.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if self.data[:6] != b"\x7fELF\x02\x01" or len(self.data) < 64:
            self.data.close()
            raise ValueError(f"{path} is no ELF file of 64 bits")
        self._programs, self._sections = struct.unpack_from("<QQ", self.data, 32)
        self._counts = struct.unpack_from("<HHHHH", self.data, 54)

    def __enter__(self) -> Elf:
        return self

    def __exit__(self, *_: object) -> None:
        self.data.close()

    def needed(self) -> tuple[str, ...]:
        """The names of the libraries that the loader brings with it (DT_NEEDED)."""
        programs = list(self._programs_of())
        entries = [
            entry
            for kind, _, offset, _, _, size, _, _ in programs
            if kind == _DYNAMICS
            for entry in self._table(_DYNAMIC, offset, size // _DYNAMIC.size, _DYNAMIC.size)
        ]
        address = next((value for tag, value in entries if tag == _STRINGS), None)
        strings = next(
            (
                offset + address - start
                for kind, _, offset, start, _, size, _, _ in programs
                if address is not None and kind == _LOAD and start <= address < start + size
            ),
            None,
        )
        if strings is None:
            return ()
        return tuple(self._string(strings + value) for tag, value in entries if tag == _NEEDED)

    def mentioned(self, name: bytes) -> str:
        """The library that it loads later under a name that begins so; looked for among texts."""
        offset, size = self.section(".rodata") or (0, 0)
        if offset + size > len(self.data):
            raise ValueError("the file is cut short")
        at = self.data.find(name, offset, offset + size)
        return "" if at < 0 else self._string(at)

    def section(self, name: str) -> tuple[int, int] | None:
        """Offset and size in bytes of the section so called, None where there is none."""
        _, _, size, count, names = self._counts
        sections = list(self._table(_SECTION, self._sections, count, size))
        if names >= len(sections):
            return None
        strings = sections[names][4]
        for begin, _, _, _, offset, length, *_ in sections:
            if self._string(strings + begin) == name:
                return offset, length
        return None

    def _programs_of(self) -> Iterator[tuple[int, ...]]:
        size, count = self._counts[:2]
        return self._table(_PROGRAM, self._programs, count, size)

    def _table(
        self, row: struct.Struct, offset: int, count: int, size: int
    ) -> Iterator[tuple[int, ...]]:
        if count > _MOST or (count and size < row.size):
            raise ValueError("a table of the file is damaged")
        if offset + count * size > len(self.data):
            raise ValueError("the file is cut short")
        for at in range(offset, offset + count * size, size or 1):
            yield row.unpack_from(self.data, at)

    def _string(self, at: int) -> str:
        if at >= len(self.data):
            raise ValueError("the file is cut short")
        end = self.data.find(b"\0", at, at + _MOST)
        return self.data[at : max(end, at)].decode("utf-8", "replace")
