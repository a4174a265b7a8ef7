"""The two files of a report beside an engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from edge_runtime.audio.ring import Samples
from edge_runtime.engines.calibrate.report.page import page
from edge_runtime.engines.calibrate.report.record import Report
from edge_runtime.errors import ModelDamaged

HTML = "report.html"
JSON = "report.json"


def write(
    report: Report,
    folder: Path,
    sounds: Mapping[str, Samples] | None = None,
    timed: Report | None = None,
) -> Path:
    """Write both files into a folder, and say where the page is.

    The page is of `timed`, where that is given: the same with figures that differ from run to
    run, which the JSON is without.
    Raises `OSError` when the disk is full; the files are then not whole, and their folder
    must not be used.
    """
    encoded = msgspec.json.format(msgspec.json.encode(report, order="deterministic"), indent=1)
    (folder / JSON).write_bytes(encoded + b"\n")
    shown = folder / HTML
    shown.write_text(page(timed or report, sounds), encoding="utf-8")
    return shown


def read(folder: Path) -> Report:
    """The report of an engine. Raises `ModelDamaged` when it cannot be read."""
    path = folder / JSON
    try:
        return msgspec.json.decode(path.read_bytes(), type=Report)
    except (OSError, msgspec.MsgspecError) as error:
        raise ModelDamaged(f"{path}: {error}", "Calibrate again.") from error
