"""What `calibrate` draws while it works, and what it says at the end."""

from __future__ import annotations

import sys
import time
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from edge_runtime.engines.calibrate.calibrate import Result, calibrate
from edge_runtime.engines.calibrate.options import Options
from edge_runtime.engines.calibrate.watch import STEPS, Watch
from edge_runtime.engines.recipe import TiledRecipe, load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import RecipeError

_WORST = 3
_LAYERS = 3


def show(model: str, options: Options, *, as_json: bool) -> bool:
    """Calibrate, and say what came of it; whether it was installed."""
    recipe = load_recipe(model)
    if not isinstance(recipe, TiledRecipe):
        raise RecipeError(
            f"{recipe.name} cannot be calibrated", "Choose a model whose family is in tiles."
        )
    began = time.monotonic()
    with _Screen(recipe.name, shown=not as_json) as screen:
        result = calibrate(recipe, Store(), options, screen)
    took = time.monotonic() - began
    if as_json:
        typer.echo(msgspec.json.encode(_row(result, options, took)))
    elif result.installed:
        typer.echo("\n".join([
            f"{recipe.name}: installed in {took:.0f} s, in {result.installed}",
            *_figures(result), *_forced(result), f"report: {result.page}",
            f"Next: {_next(recipe.name, options)}",
        ]))  # fmt: skip
    else:
        typer.echo("\n".join(_refusal(recipe.name, result)), err=True)
    return result.installed is not None


def _figures(result: Result) -> list[str]:
    """Accuracy, size and time, before and after."""
    verdict, before, after = result.report.verdict, result.timed.original, result.timed.chosen
    if verdict is None or before is None or after is None:
        return []
    what = "word errors" if verdict.transcribed else "words that differ"
    rates = (
        f"{what}: {verdict.wer_original:.2f} % before, {verdict.wer_quantised:.2f} % after, "
        f"{verdict.increase:+.2f} points (95 %: {verdict.low:+.2f} to {verdict.high:+.2f}) over "
        f"{verdict.words:,} words"
    )
    found = [rates, *(f"note: {note}" for note in verdict.notes)]
    if before.bytes and after.bytes:
        found.append(
            f"weights: {before.bytes / 1e6:.1f} MB before, {after.bytes / 1e6:.1f} MB after "
            f"({after.bytes / before.bytes:.2f} ×)"
        )
    times = [
        f"{name} {one:.1f} → {other:.1f} ms"
        for name, one, other in (
            ("encode", before.encode_ms, after.encode_ms),
            ("draft check", before.draft_ms, after.draft_ms),
            ("step", before.step_ms, after.step_ms),
        )
        if one is not None and other is not None
    ]
    found.append(f"time for eight seconds: {', '.join(times)}")
    kept = ", ".join(each.name for each in result.report.kept)
    found.append(f"kept wide: {kept or 'nothing'}")
    return found


def _forced(result: Result) -> list[str]:
    if not result.report.forced:
        return []
    return [f"forced, in spite of this: {reason}" for reason in result.report.reasons]


def _refusal(model: str, result: Result) -> list[str]:
    """Why, by which recordings and layers, and what to try."""
    report, verdict = result.report, result.report.verdict
    found = [f"{model}: refused, nothing was installed"]
    found += [f"why:    {reason}" for reason in report.reasons]
    if verdict is not None:
        lost = [each for each in verdict.worst if each.lost > 0][:_WORST]
        found += [
            f"worst:  {each.outcome.name}: {each.lost} more errors in {each.words} words"
            for each in lost
        ]
        found += [f"note:   {note}" for note in verdict.notes]
    layers = [each for each in report.sensitivity if each.precision == "int8"]
    layers.sort(key=lambda each: (-each.error, each.name))
    if layers:
        shown = ", ".join(f"{each.name} ({100 * each.error:.1f} %)" for each in layers[:_LAYERS])
        found.append(f"layers: in 8 bits the output changes most by {shown}")
    found += [f"report: {result.page}", f"fix:    {_advice(result)}"]
    return found


def _advice(result: Result) -> str:
    if result.report.verdict is None:
        return "Calibrate with recordings of speech like what the device will hear."
    return (
        "Add recordings (ten minutes or more, several speakers, some without speech), allow more "
        "with --max-wer-increase, or install it anyway with --force."
    )


def _next(model: str, options: Options) -> str:
    option = "" if model == "moonshine-tiny-en" else f" --model {model}"
    if options.candidate:
        return f"edge-runtime serve{option} --canary 0.1, then edge-runtime engines promote {model}"
    return f"edge-runtime serve{option}; back again: edge-runtime engines rollback {model}"


def _row(result: Result, options: Options, took: float) -> dict[str, Any]:
    report, before, after = result.report, result.timed.original, result.timed.chosen
    verdict = report.verdict
    return {
        "model": report.model,
        "installed": str(result.installed) if result.installed else None,
        "fingerprint": result.installed.name if result.installed else None,
        "candidate": bool(result.installed) and options.candidate,
        "passed": report.passed,
        "forced": report.forced,
        "reasons": report.reasons,
        "warnings": report.warnings,
        "skipped": report.skipped,
        "report": str(result.page),
        "took": round(took, 1),
        "original": before,
        "calibrated": after,
        "kept": report.kept,
        "increase": verdict.increase if verdict else None,
        "words": verdict.words if verdict else 0,
        "room": report.room,
    }


class _Screen(Watch):
    """One bar for all steps, with the time that is left; warnings above it."""

    def __init__(self, model: str, *, shown: bool) -> None:
        self._model, self._shown = model, shown
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not (shown and sys.stderr.isatty()),
        )
        self._task = self._bar.add_task(model, total=sum(STEPS.values()))

    def __enter__(self) -> _Screen:
        self._bar.__enter__()
        return self

    def __exit__(self, *reason: Any) -> None:
        self._bar.__exit__(*reason)

    def step(self, name: str, done: int, total: int) -> None:
        before = 0.0
        for step, share in STEPS.items():
            if step == name:
                break
            before += share
        self._bar.update(
            self._task,
            description=f"{self._model}: {name}",
            completed=before + STEPS[name] * done / max(total, 1),
        )

    def said(self, warning: str) -> None:
        self._print(f"warning: {warning}")

    def waiting(self) -> None:
        self._print(f"another process calibrates {self._model}: waiting for it")

    def _print(self, line: str) -> None:
        if self._shown:
            self._bar.console.print(line, highlight=False, soft_wrap=True, markup=False)
