"""What is said in recordings: transcripts found beside them, and those that belong elsewhere."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from edge_runtime import words
from edge_runtime.errors import CalibrationError

MANIFEST = "manifest.tsv"
"""The table that is looked for in a folder when none is named."""

MISMATCH = 60.0
"""A transcript is doubted from this word error rate of the unquantised model's text, in percent."""

_IDS = ("id", "name")
_NAMES = ("path", "file", "file_name", "filename", "audio", *_IDS)
_TEXTS = ("transcript", "transcription", "text", "sentence")
_SPEAKERS = ("speaker", "speaker_id", "client_id")
_HEAD = "Its first line must name the columns: path (or id) and transcript."


@dataclass(frozen=True)
class Line:
    """What a table says about a recording: `text` is None unknown, "" where nobody speaks."""

    name: str
    path: Path | None
    text: str | None
    speaker: str = ""


@dataclass(frozen=True)
class Transcripts:
    """The lines of a table, found by a recording's path, else by its bare name.

    `path` of a line is absolute and without its ending; a name that two lines share finds
    neither.
    """

    source: Path | None
    lines: tuple[Line, ...] = ()

    @cached_property
    def _by_path(self) -> dict[Path, Line]:
        return {line.path: line for line in self.lines if line.path is not None}

    @cached_property
    def _by_name(self) -> dict[str, Line]:
        often = Counter(line.name for line in self.lines)
        return {line.name: line for line in self.lines if often[line.name] == 1}

    def of(self, path: Path) -> Line:
        """What is known of a recording: its line, else the text in a `.txt` file beside it."""
        line = self._by_path.get(_bare(path)) or self._by_name.get(path.stem)
        if line is not None:
            return line
        beside = path.with_suffix(".txt")
        text = _decoded(beside).strip() if beside.is_file() else None
        return Line(path.stem, None, text)

    def unused(self, recordings: Iterable[Path]) -> list[str]:
        """The names of lines that are about none of the recordings."""
        recordings = list(recordings)
        paths = {_bare(path) for path in recordings}
        names = {path.stem for path in recordings}
        return [
            line.name for line in self.lines if line.path not in paths and line.name not in names
        ]


def read(table: Path | None, folder: Path) -> Transcripts:
    """The table at `table`, else `manifest.tsv` of the folder, else none.

    Tab-separated, or comma-separated where it is named `.csv`. A line is found by its `path`
    (relative to the table) or its `id`. An empty transcript says that nobody speaks, unless a
    column `condition` is there and does not begin with "non-speech": then it is not known.
    Raises `CalibrationError` for a table that cannot be used.
    """
    if table is None:
        table = folder / MANIFEST
        if not table.is_file():
            return Transcripts(None)
    try:
        content = _decoded(table)
    except OSError as error:
        raise CalibrationError(
            f"the transcripts {table} cannot be read: {error.strerror}", "Check the path."
        ) from error
    if table.suffix.lower() == ".csv":
        rows = csv.DictReader(content.splitlines())
    else:
        rows = csv.DictReader(content.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    columns = [column.strip().lower() for column in rows.fieldnames or ()]
    rows.fieldnames = columns
    name, text = _first(columns, _NAMES), _first(columns, _TEXTS)
    if name is None or text is None:
        raise CalibrationError(f"{table} has no column of recordings or of transcripts", _HEAD)
    speaker = _first(columns, _SPEAKERS)
    lines = []
    for row in rows:
        where = row[name] or ""
        path = None if name in _IDS else _bare(table.parent / where)
        said_by = (row[speaker] or "") if speaker else ""
        lines.append(Line(path.name if path else where, path, _text(row, text), said_by))
    if not lines:
        raise CalibrationError(f"the transcripts {table} hold no lines", "Add one a recording.")
    return Transcripts(table, tuple(lines))


@dataclass(frozen=True)
class Doubt:
    """A transcript that the unquantised model's text contradicts: `rate` is its WER in percent."""

    name: str
    rate: float


def doubtful(
    transcripts: Mapping[str, str], texts: Mapping[str, str], limit: float = MISMATCH
) -> list[Doubt]:
    """Transcripts that do not match their recordings, worst first, by recordings' names.

    `texts` are those of the unquantised model. Raises `CalibrationError` when most of three
    or more do not match: then the table belongs to other audio.
    """
    rates = {
        name: words.score(said, texts[name]).rate
        for name, said in transcripts.items()
        if said and name in texts
    }
    found = [Doubt(name, rate) for name, rate in rates.items() if rate > limit]
    found.sort(key=lambda doubt: (-doubt.rate, doubt.name))
    if len(rates) >= 3 and len(found) * 2 > len(rates):
        worst = ", ".join(f"{doubt.name} ({doubt.rate:.0f} %)" for doubt in found[:3])
        raise CalibrationError(
            f"{len(found)} of {len(rates)} transcripts do not match what the unquantised model "
            f"hears, by word error rate: {worst}",
            "Name the table that belongs to these recordings, or leave out --transcripts.",
        )
    return found


def _text(row: Mapping[str, str | None], column: str) -> str | None:
    said = (row.get(column) or "").strip()
    if said or "condition" not in row:
        return said
    return "" if (row["condition"] or "").startswith("non-speech") else None


def _first(columns: list[str], known: tuple[str, ...]) -> str | None:
    return next((column for column in known if column in columns), None)


def _decoded(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise CalibrationError(f"{path} is not UTF-8 text", "Save it as UTF-8.") from error


def _bare(path: Path) -> Path:
    return path.absolute().with_suffix("")
