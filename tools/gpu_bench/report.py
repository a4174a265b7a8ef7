"""A run as lines, as a table and as JSON: figure, value, target, reached or not."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from edge_runtime.bench.figure import Figure, Figures
from gpu_bench.targets import BY_FIGURE, TARGETS

WORDS = {True: "reached", False: "MISSED", None: ""}


def verdict(figure: Figure) -> bool | None:
    """Whether a figure reached its target; None without a value or a target."""
    target = BY_FIGURE.get(figure.name)
    if target is None or figure.value is None:
        return None
    return target.reached(figure.value)


def line(figure: Figure) -> str:
    """One line, for the log of the run."""
    target = BY_FIGURE.get(figure.name)
    parts = [figure.name, figure.shown()]
    if target is not None:
        parts.append(f"({target.shown()}: {WORDS[verdict(figure)] or 'not measured'})")
    parts.append(f"– {figure.label}")
    if figure.note:
        parts.append(f"[{figure.note}]")
    return " ".join(parts)


def table(figures: Figures, failed: Mapping[str, str], title: str) -> RenderableType:
    """Figures with a target first, in the targets' order, then the others; then what failed."""
    grid = Table(title=title, title_justify="left")
    grid.add_column("figure")
    grid.add_column("value", justify="right")
    grid.add_column("target", justify="right")
    grid.add_column("reached")
    grid.add_column("note", style="dim")
    for target in TARGETS:
        figure = figures.get(target.figure)
        if figure is not None:
            _row(grid, figure)
    grid.add_section()
    for figure in figures:
        if figure.name not in BY_FIGURE:
            _row(grid, figure)
    lines = [Text(f"{row}: {why}", style="red") for row, why in failed.items()]
    absent = [target.figure for target in TARGETS if figures.get(target.figure) is None]
    if absent:
        lines.append(Text(f"not measured: {', '.join(absent)}", style="yellow"))
    return Group(grid, *lines)


def _row(grid: Table, figure: Figure) -> None:
    target, reached = BY_FIGURE.get(figure.name), verdict(figure)
    style = {True: "green", False: "bold red", None: "dim"}[reached]
    grid.add_row(
        f"{figure.name}\n{figure.label}",
        figure.shown(),
        target.shown() if target else "",
        Text(WORDS[reached], style=style),
        figure.note,
    )


def figures_record(figures: Figures) -> list[dict[str, Any]]:
    """For a file: values in full, targets beside them; what JSON has no word for is null."""
    return [
        {
            "name": figure.name,
            "label": figure.label,
            "value": figure.value
            if figure.value is not None and math.isfinite(figure.value)
            else None,
            "unit": figure.unit,
            "note": figure.note,
            "target": target.shown() if (target := BY_FIGURE.get(figure.name)) else None,
            "reached": verdict(figure),
        }
        for figure in figures
    ]


def figures_of(record: Mapping[str, Any]) -> list[Figure]:
    """The figures of a file that was written."""
    return [
        Figure(each["name"], each["label"], each["value"], each["unit"], each["note"])
        for each in record["figures"]
    ]


def write(path: Path, content: Mapping[str, Any]) -> None:
    """As JSON, whole or not at all: a run that is cut off leaves what it had."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1, ensure_ascii=False)
        file.write("\n")
    Path(name).chmod(0o644)
    Path(name).replace(path)
