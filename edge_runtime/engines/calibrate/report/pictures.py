"""The plots of a report: SVG that takes its text colour and fonts from the page around it."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from edge_runtime.engines.calibrate.report.record import Seen, Sensitivity, Variant

_INK = "#010203"
"""Stands for the page's text colour, whatever it is; no plot has another use for it."""

_BLUE, _ORANGE, _GREY = "#2f7ebc", "#d9731a", "#8a8f98"
_HATCHES = ("", "//", "xx", "..")
_WIDTH = 4.8  # inches of 72 units: about the width of a phone, so that text stays 10 pixels
_STYLE: dict[Any, Any] = {
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "edge-runtime",
    "text.color": _INK,
    "text.parse_math": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


def increases(variants: Sequence[Variant], limit: float) -> str:
    """Points of word error rate of each variant with its interval, and what is allowed."""
    shown = [each for each in variants if each.increase is not None and not each.original]
    with _Drawing(1.0 + 0.35 * len(shown)) as (figure, axes):
        for place, each in enumerate(shown):
            increase = each.increase or 0.0
            low = increase if each.low is None else each.low
            high = increase if each.high is None else each.high
            axes.errorbar(
                increase, place, xerr=[[increase - low], [high - increase]], fmt="o",
                color=_BLUE, capsize=4, linewidth=2,
            )  # fmt: skip
        axes.axvline(0, color=_INK, linewidth=0.8)
        axes.axvline(limit, color=_ORANGE, linewidth=2, linestyle="--", label="allowed")
        axes.set_yticks(range(len(shown)), [each.name for each in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_xlabel("points of WER more than unquantised")
        _legend(figure)
        return _svg(figure, "increases", "Change of the word error rate with 95 % intervals")


def sensitivity(groups: Sequence[Sensitivity]) -> str:
    """A bar for each group, the most sensitive on top; hatches tell precisions apart."""
    precisions = sorted({each.precision for each in groups})
    colours = (_BLUE, _ORANGE, _GREY, "#5aa469")
    with _Drawing(1.1 + 0.26 * len(groups)) as (figure, axes):
        for index, precision in enumerate(precisions):
            places = [k for k, each in enumerate(groups) if each.precision == precision]
            axes.barh(
                places, [groups[k].error for k in places], label=precision,
                color=colours[index % 4], hatch=_HATCHES[index % 4], edgecolor="white",
            )  # fmt: skip
        axes.set_yticks(range(len(groups)), [_short(each.name) for each in groups], fontsize=8)
        axes.set_ylim(len(groups) - 0.4, -0.6)
        errors = [each.error for each in groups if each.error > 0]
        if errors and max(errors) > 20 * min(errors):
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(_plain)
        axes.set_xlabel("error of the output when quantised alone")
        _legend(figure)
        return _svg(figure, "sensitivity", "Output error by group of nodes")


def histogram(seen: Seen, number: int) -> str:
    """How often each magnitude came, on a logarithmic scale, and where the range ends."""
    with _Drawing(1.9, 3.4) as (figure, axes):
        edges = np.linspace(0, seen.end, len(seen.counts) + 1)
        axes.stairs(np.array(seen.counts), edges, fill=True, color=_BLUE)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(_plain)
        axes.axvline(seen.range.absmax, color=_ORANGE, linewidth=2, linestyle="--")
        axes.set_xlim(0, max(seen.end, seen.range.absmax) * 1.03)
        axes.set_ylim(0.7)
        axes.set_xlabel("magnitude")
        axes.set_ylabel("values")
        title = f"Values of {seen.name}; the range ends at {seen.range.absmax:.3g}"
        return _svg(figure, f"range-{number}", title)


class _Drawing:
    """A figure of its own, in our style, without matplotlib's global state."""

    def __init__(self, height: float, width: float = _WIDTH) -> None:
        import matplotlib as mpl

        self._size = (width, height)
        self._style: Any = mpl.rc_context(_STYLE)

    def __enter__(self) -> tuple[Any, Any]:
        from matplotlib.figure import Figure

        self._style.__enter__()
        figure = Figure(figsize=self._size, layout="constrained")
        return figure, figure.subplots()

    def __exit__(self, *error: object) -> None:
        self._style.__exit__(*error)


def _svg(figure: Any, name: str, title: str) -> str:
    """The figure as an element to stand in a page; `name` keeps its ids apart from others'."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Title": title})
    text = file.getvalue()
    text = text[text.index("<svg ") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{name}-", text)
    text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)
    text = text.replace(_INK, "currentColor")
    return text.replace("<svg ", '<svg role="img" ', 1)


def _legend(figure: Any) -> None:
    """Above the plot, where no bar can lie under it."""
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)


def _plain(value: float, _: int) -> str:
    """A tick's label that needs no formula: those would leave names with dollar signs unsafe."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _short(name: str, longest: int = 30) -> str:
    return name if len(name) <= longest else f"…{name[1 - longest :]}"
