"""What a folder of the store holds: names, sizes and hashes, written when it is complete."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from edge_runtime.errors import ModelDamaged

FILE = "manifest.json"

VOLATILE = ".cache"
"""How names end of what is rewritten after a folder was completed: never sealed."""

_CHUNK = 1 << 20


class StoredFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file as it was when its folder was completed."""

    name: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a folder holds and where it came from: `source` is free text for people."""

    source: str
    files: tuple[StoredFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def seal(folder: Path, source: str) -> None:
    """Write the manifest of all files in `folder`, and everything through to the disk.

    Files whose names end in `VOLATILE` are left out.
    """
    files = []
    for path in sorted(each for each in folder.iterdir() if each.suffix != VOLATILE):
        files.append(StoredFile(path.name, path.stat().st_size, sha256(path)))
        sync(path)
    encoded = msgspec.json.encode(Manifest(source, tuple(files)))
    (folder / FILE).write_bytes(msgspec.json.format(encoded) + b"\n")
    sync(folder / FILE)
    sync(folder)


def checked(folder: Path, *, verify: bool = False) -> Manifest:
    """The folder's manifest, once all files have the size it says, and with `verify` the sha256.

    Raises `ModelDamaged` naming the file.
    """
    path = folder / FILE
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError) as error:
        raise ModelDamaged(f"{path}: {error}") from error
    for file in manifest.files:
        found = folder / file.name
        if not found.is_file():
            raise ModelDamaged(f"{found} is gone")
        size = found.stat().st_size
        if size != file.size:
            raise ModelDamaged(f"{found} has {size} bytes, not {file.size}")
        if verify and sha256(found) != file.sha256:
            raise ModelDamaged(f"{found} was changed: its sha256 differs")
    return manifest


def sha256(path: Path) -> str:
    """Of a file's content, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def sync(path: Path) -> None:
    """Write a file or a folder through to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
