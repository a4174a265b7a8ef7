"""A run as a table and as JSON: figure, measured, target, reached or not."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from edge_runtime.bench.bench import Bench
from edge_runtime.bench.figure import Figure, Target
from edge_runtime.bench.hardware import Hardware
from edge_runtime.bench.targets import TARGETS

_VERDICTS = {True: ("reached", "green"), False: ("missed", "bold red"), None: ("", "dim")}


def verdict(figure: Figure | None, target: Target | None) -> bool | None:
    """Whether a figure reached its target; None without a value or a target."""
    if figure is None or figure.value is None or target is None:
        return None
    return target.reached(figure.value)


def table(bench: Bench, hardware: Hardware) -> RenderableType:
    """Figures with a target first, in the targets' order, then the others."""
    targets = {target.figure: target for target in TARGETS}
    grid = Table(title="edge-runtime bench", title_justify="left", show_lines=False)
    for name, justify in (
        ("figure", "left"),
        ("measured", "right"),
        ("target", "right"),
        ("", "left"),
        ("note", "left"),
    ):
        grid.add_column(name, justify=justify)  # type: ignore[arg-type]
    for name, target in targets.items():
        _row(grid, bench.figures.get(name), target)
    grid.add_section()
    for figure in bench.figures:
        if figure.name not in targets:
            _row(grid, figure, None)
    lines = [Text(hardware.line(), style="dim")]
    lines += [Text(served.line(), style="dim") for served in bench.served]
    lines += [Text(f"{row}: {message}", style="red") for row, message in bench.failed.items()]
    if bench.interrupted():
        lines.append(Text("interrupted: what was measured until then", style="yellow"))
    return Group(grid, *lines)


def _row(grid: Table, figure: Figure | None, target: Target | None) -> None:
    if figure is None:
        return
    word, style = _VERDICTS[verdict(figure, target)]
    grid.add_row(
        figure.label,
        figure.shown(),
        target.shown() if target else "",
        Text(word, style=style),
        Text(figure.note, style="dim"),
    )


def record(bench: Bench, hardware: Hardware, rows: list[str]) -> dict[str, Any]:
    """The run for a file: values in full, targets beside them, and how it was made."""
    targets = {target.figure: target for target in TARGETS}
    options = bench.options
    return {
        "format": 1,
        "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "hardware": hardware.record(),
        "manifest": str(bench.manifest.path),
        "rows": rows,
        "streams": "auto" if options.crowd.auto else options.streams,
        "within_ms": options.crowd.limit,
        "quick": options.quick,
        "model": options.model,
        "device": options.device,
        "served": [served.record() for served in bench.served],
        "url": options.url,
        "peer": options.peer,
        "interrupted": bench.interrupted(),
        "failed": bench.failed,
        "figures": [
            {
                "name": figure.name,
                "label": figure.label,
                "value": figure.value,
                "unit": figure.unit,
                "note": figure.note,
                "target": target.shown() if (target := targets.get(figure.name)) else None,
                "reached": verdict(figure, target),
            }
            for figure in bench.figures
        ],
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """As JSON; a float that JSON has no word for becomes null."""
    for figure in content["figures"]:
        if figure["value"] is not None and abs(figure["value"]) == float("inf"):
            figure["value"] = None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def missed(bench: Bench) -> list[str]:
    """Names of the figures that did not reach their targets."""
    return [t.figure for t in TARGETS if verdict(bench.figures.get(t.figure), t) is False]
