"""The report as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edge_runtime.audio.ring import Samples
from edge_runtime.engines.calibrate.report import pictures
from edge_runtime.engines.calibrate.report.diff import diff
from edge_runtime.engines.calibrate.report.record import Report, Variant
from edge_runtime.engines.calibrate.report.sound import addresses

RANGES = 12
"""Tensors whose values are drawn: those with the largest error."""

GROUPS = 25
"""Groups in the bar chart: the most sensitive. The table has all of them."""

_TEMPLATE = "page.html"


def page(report: Report, sounds: Mapping[str, Samples] | None = None) -> str:
    """The page; `sounds` are (n,) samples at 16 kHz of clips, by name, to be played in it.

    The same report gives the same page. Needs the packages that `extra.check` looks for.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "size": _size, "number": _number, "points": _points, "ms": _ms, "interval": _interval,
    }  # fmt: skip
    worst = report.verdict.worst if report.verdict else ()
    most = sorted(report.sensitivity, key=lambda each: (-each.error, each.name))
    drawn = sorted(report.ranges, key=lambda each: (-_error(each.range), each.name))[:RANGES]
    limit = report.verdict.max_wer_increase if report.verdict else 0.0
    compared = [v for v in report.variants if v.increase is not None and not v.original]
    return environment.get_template(_TEMPLATE).render(
        report=report,
        verdict=report.verdict,
        headline=_headline(report),
        figures=_figures(report),
        increases=Markup(pictures.increases(compared, limit)) if compared else "",
        sensitivity=most,
        groups=GROUPS,
        bars=Markup(pictures.sensitivity(most[:GROUPS])) if most else "",
        drawn=[(each, Markup(pictures.histogram(each, k))) for k, each in enumerate(drawn)],
        worst=[(each, diff(each.outcome.original, each.outcome.quantised)) for each in worst],
        sounds=addresses([each.outcome.name for each in worst], sounds or {}),
    )


def _headline(report: Report) -> str:
    """The verdict in plain words."""
    if report.passed:
        return "Passed: the smaller engine writes what the original writes, within what is allowed"
    if report.forced:
        return "Refused, and installed by force: the smaller engine is worse than allowed"
    return "Refused: the smaller engine was not installed"


def _figures(report: Report) -> list[tuple[str, str, str]]:
    """What people look for first: label, value, remark."""
    found = []
    verdict, before, after = report.verdict, report.original, report.chosen
    if verdict is not None:
        found.append(
            (
                "Word error rate" if verdict.transcribed else "Words that differ",
                f"{verdict.increase:+.2f} points",
                f"95 %: {_span(verdict.low, verdict.high)}; {verdict.max_wer_increase:.2f} allowed",
            )
        )
    if before is not None and after is not None:
        found += [
            _compared("Weights", before.bytes, after.bytes, _size),
            _compared("One update", before.update_ms, after.update_ms, _ms),
        ]
    if verdict is not None and verdict.speechless_clips:
        found.append(
            (
                "Words where nobody speaks",
                str(verdict.speechless_quantised),
                f"unquantised {verdict.speechless_original}",
            )
        )
    return [figure for figure in found if figure[1]]


def _compared(
    label: str, before: float | None, after: float | None, shown: Any
) -> tuple[str, str, str]:
    if after is None or not before:
        return label, "", ""
    return label, shown(after), f"{after / before:.2f} × the original's {shown(before)}"


def _error(range_: Any) -> float:
    error: float = range_.errors[range_.method]
    return error


def _size(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value / 1e6:.1f} MB" if value >= 1e5 else f"{value / 1e3:.1f} kB"


def _number(value: str | float | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def _points(value: float | None, sign: bool = False) -> str:
    return "–" if value is None else f"{value:+.2f}" if sign else f"{value:.2f}"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g} ms"


def _interval(variant: Variant) -> str:
    """`+0.12 (-0.05 to +0.30)`; a dash where it was not measured."""
    if variant.increase is None:
        return "–"
    if variant.low is None or variant.high is None:
        return f"{variant.increase:+.2f}"
    return f"{variant.increase:+.2f} ({_span(variant.low, variant.high)})"


def _span(low: float, high: float) -> str:
    return f"{low:+.2f} to {high:+.2f}"
