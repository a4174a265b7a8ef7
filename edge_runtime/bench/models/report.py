"""A comparison as a table for a terminal, for a page, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rich.table import Table

from edge_runtime.bench.figure import shown
from edge_runtime.bench.hardware import Hardware
from edge_runtime.bench.models import Comparison
from edge_runtime.bench.models.row import Row
from edge_runtime.bench.percentile import percentile

_MB = 1e6

COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("system", lambda row: row.name),
    ("WER %", lambda row: _number(row.wer)),
    ("end of speech → final p50 / p95 (ms)", lambda row: _pair(row.finals)),
    ("first partial p50 / p95 (ms)", lambda row: _pair(row.firsts)),
    ("CPU s per s, live", lambda row: _number(row.cpu)),
    ("CPU s per s, whole clips", lambda row: _number(row.whole)),
    ("memory (MB)", lambda row: _number(_scaled(row.memory))),
    ("model on disk (MB)", lambda row: _number(_scaled(row.disk))),
    ("as", lambda row: row.said),
)
"""Headings, and what a row has below them."""


def table(comparison: Comparison) -> Table:
    """For a terminal."""
    grid = Table(title="edge-runtime compare", title_justify="left")
    for heading, _ in COLUMNS:
        numbers = heading not in {"system", "as"}
        grid.add_column(heading, justify="right" if numbers else "left")
    for row in comparison.rows:
        grid.add_row(*(cell(row) for _, cell in COLUMNS), style="red" if row.failed else None)
    return grid


def markdown(comparison: Comparison, hardware: Hardware) -> str:
    """The same for a page, with what it was measured on and how."""
    headings = [heading for heading, _ in COLUMNS]
    lines = [
        f"# Models side by side, {_today()}",
        "",
        f"{hardware.line()}.",
        "",
        _how(comparison),
        "",
        f"| {' | '.join(headings)} |",
        f"|{'---|' * len(headings)}",
    ]
    for row in comparison.rows:
        cells = [cell(row).replace("|", "\\|").replace("\n", " ") for _, cell in COLUMNS]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def record(comparison: Comparison, hardware: Hardware) -> dict[str, Any]:
    """For a file: figures in full."""
    return {
        "format": 1,
        "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "hardware": hardware.record(),
        "options": list(comparison.options),
        "texts": [clip.name for clip in comparison.texts],
        "paced": [clip.name for clip in comparison.paced],
        "interrupted": comparison.interrupted,
        "rows": [row.record() for row in comparison.rows],
    }


def write(path: Path, content: str | dict[str, Any]) -> None:
    """A file, and its folder; a record as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, str):
        content = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    path.write_text(content, encoding="utf-8")


def _how(comparison: Comparison) -> str:
    texts, paced = comparison.texts, comparison.paced
    spoken = sum(clip.seconds for clip in texts)
    return (
        f"Words of {len(texts)} clips ({spoken:.0f} s), each played at once; waiting and live cost "
        f"of {len(paced)} clips ({sum(clip.seconds for clip in paced):.0f} s), paced like a "
        "microphone, partials on. One system after the other, with its own defaults, alone."
        + (" Interrupted: what was measured until then." if comparison.interrupted else "")
    )


def _today() -> str:
    return datetime.now(timezone.utc).date().isoformat()


def _scaled(size: int | None) -> float | None:
    return None if size is None else round(size / _MB)


def _number(value: float | None) -> str:
    return "–" if value is None else shown(value)


def _pair(values: Sequence[float]) -> str:
    found = [percentile(values, q) for q in (50, 95)]
    return " / ".join("–" if each is None else f"{each:,.0f}" for each in found)
