"""A calibration's findings as a report."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import onnx

from edge_runtime import __version__
from edge_runtime.config import Updating
from edge_runtime.engines.calibrate.believing import Belief
from edge_runtime.engines.calibrate.costs import TYPICAL, Cost
from edge_runtime.engines.calibrate.gate import Verdict
from edge_runtime.engines.calibrate.material import Material
from edge_runtime.engines.calibrate.mix import Mix
from edge_runtime.engines.calibrate.options import Options
from edge_runtime.engines.calibrate.ranging import Ranging
from edge_runtime.engines.calibrate.report import (
    Kept,
    Report,
    Seen,
    Sensitivity,
    Table,
    Variant,
)
from edge_runtime.engines.calibrate.room import Room
from edge_runtime.engines.calibrate.search import NATS

ORIGINAL, CHOSEN = "float32", "calibrated"
"""The names of the two models that are compared."""

_NOT_HAD = {
    "float16": "a CPU computes no float16; a GPU's engine does: edge-runtime build",
    "int8 weights alone": "not offered: on a CPU encoding gets slower by it (docs/calibrate.md)",
    "int4 weights": "not offered: Moonshine Tiny lost two points by it (docs/calibrate.md)",
    "FP8": "a CPU has no 8-bit floating point; for GPUs it was built and not run yet",
}


def versions() -> dict[str, str]:
    """Of all that decides what comes out."""
    import onnxruntime

    return {
        "edge-runtime": __version__,
        "numpy": np.__version__,
        "onnx": onnx.__version__,
        "onnxruntime": onnxruntime.__version__,
    }


def report(
    model: str, material: Material, options: Options, ranging: Ranging, room: Room
) -> Report:
    """What is known before anything is judged."""
    return Report(
        model=model,
        engine="the int8 variant",
        verdict=None,
        refused=ranging.refused,
        warnings=material.warnings,
        skipped=material.clips.skipped,
        ranges=tuple(
            Seen.of(name, each, ranging.observed.histograms[name])
            for name, each in ranging.ranges.items()
        ),
        room=room,
        tables=(_recordings(material),),
        settings=_settings(options, material),
        versions=versions(),
        hardware=f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
    )


def judged(
    made: Report, mix: Mix, verdict: Verdict, belief: Belief, original: Path, *, force: bool
) -> Report:
    """With what was searched and how it was judged; `original` are the float32 graphs."""
    wide = set(mix.tried[-1].wide)
    speechless = bool(verdict.speechless_clips)
    variants = (
        Variant(
            name=ORIGINAL,
            bytes=size(original),
            wer=verdict.wer_original,
            speechless_words=verdict.speechless_original if speechless else None,
            original=True,
        ),
        Variant(
            name=CHOSEN,
            bytes=size(mix.graphs),
            wer=verdict.wer_quantised,
            increase=verdict.increase,
            low=verdict.low,
            high=verdict.high,
            speechless_words=verdict.speechless_quantised if speechless else None,
            chosen=True,
        ),
        *(Variant(name=name, missing=why) for name, why in _NOT_HAD.items()),
    )
    found = msgspec.structs.replace(
        made,
        verdict=verdict,
        variants=variants,
        sensitivity=tuple(
            Sensitivity(
                name=each.name,
                error=each.error,
                bytes=each.bytes,
                precision=each.wide if each.name in wide else "int8",
            )
            for each in mix.ranked
        ),
        kept=tuple(
            Kept(
                name=each.name,
                precision=each.wide,
                why=f"in 8 bits it alone changes the logits by {100 * each.error:.1f} %, and saves "
                f"{each.bytes:,} bytes",
            )
            for each in mix.ranked
            if each.name in wide
        ),
        tables=(_tried(mix), _guards(belief), *made.tables),
    )
    return msgspec.structs.replace(found, forced=force and not found.passed)


def with_costs(made: Report, costs: Mapping[str, Sequence[Cost]]) -> Report:
    """With times, which differ from run to run."""
    typical = {
        name: next(cost for cost in found if cost.seconds == TYPICAL)
        for name, found in costs.items()
    }
    variants = []
    for variant in made.variants:
        cost = typical.get(variant.name)
        if cost is not None:
            variant = msgspec.structs.replace(  # noqa: PLW2901 – the row with its times
                variant,
                encode_ms=cost.encode,
                draft_ms=cost.draft,
                step_ms=cost.step,
                update_ms=cost.update,
            )
        variants.append(variant)
    return msgspec.structs.replace(
        made, variants=tuple(variants), tables=(_costs(costs), *made.tables)
    )


def size(folder: Path) -> int:
    """Bytes of the graphs and the table in a folder."""
    paths: Iterable[Path] = [*folder.glob("*.onnx"), folder / "table.npy"]
    return sum(path.stat().st_size for path in paths)


def _settings(options: Options, material: Material) -> dict[str, str]:
    return {
        "target": options.target,
        "allowed": f"{options.max_wer_increase:.2f} points of word error rate",
        "hold-out": f"{100 * material.parts.share:.0f} % of the seconds",
    }


def _recordings(material: Material) -> Table:
    """Which part each clip was in."""
    held = {clip.name for clip in material.parts.holdout}
    return Table(
        title="Recordings",
        head=("recording", "seconds", "speaker", "for"),
        rows=tuple(
            (
                clip.name,
                round(clip.seconds, 2),
                clip.speaker or None,
                "the gate" if clip.name in held else "ranges",
            )
            for clip in material.clips
        ),
        note="Ranges and mixes come from one part, the verdict from the other.",
    )


def _tried(mix: Mix) -> Table:
    return Table(
        title="Mixes that were tried",
        head=("kept wide", "bytes", "change of the logits", "nats a token", "points", "does"),
        rows=tuple(
            (
                ", ".join(each.wide) or "nothing",
                each.bytes,
                round(each.error, 4),
                round(each.nats, 4),
                round(each.increase, 2),
                "yes" if each.passed else "no",
            )
            for each in mix.tried
        ),
        note="Measured on the part that ranges come from. Nats: how much less likely the "
        f"unquantised text becomes, at most {NATS:g} do; points: of word error rate.",
    )


def _guards(belief: Belief) -> Table:
    """What a text must look like to be believed, where that was measured."""
    return Table(
        title="Thresholds of the guards",
        head=("key", "value", "why"),
        rows=(("guarding.mean_logprob", belief.threshold, belief.reason),),
        note="Used with this model where your configuration says nothing else.",
    )


def _costs(costs: Mapping[str, Sequence[Cost]]) -> Table:
    updating = Updating()
    rows: list[tuple[str | float, ...]] = [
        (
            name,
            cost.seconds,
            cost.encode,
            cost.draft,
            cost.step,
            round(cost.update, 3),
            round(max(updating.hop_ms, updating.hop_factor * cost.update)),
        )
        for name, found in costs.items()
        for cost in found
    ]
    return Table(
        title="Time on one thread of this CPU",
        head=("model", "seconds", "encode", "draft check", "step", "update", "hop"),
        rows=tuple(rows),
        note="Milliseconds, the least of several rounds; a hop is how far apart updates of one "
        "stream come. A batch of N rows takes N times as long on a CPU.",
    )
