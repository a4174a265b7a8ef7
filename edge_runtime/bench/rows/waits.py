"""Latency of a set of takes, ours or a peer's."""

from __future__ import annotations

from collections.abc import Sequence

from edge_runtime.bench import energy, latency
from edge_runtime.bench.bench import Bench
from edge_runtime.bench.manifest import Clip
from edge_runtime.bench.percentile import percentile, share
from edge_runtime.bench.take import Take


def add(
    bench: Bench, clips: Sequence[Clip], takes: Sequence[Take], prefix: str = "", whose: str = ""
) -> None:
    """Adds `final.*` and `first.*`, their names after `prefix`, their labels after `whose`."""
    finals: list[float] = []
    firsts: list[float] = []
    faint: list[float] = []
    right: list[bool] = []
    for clip, take in zip(clips, takes, strict=True):
        span = energy.speech(clip.pcm)
        if span is None:
            continue
        final = latency.final_after(take, span)
        voiced = energy.speech(clip.pcm, energy.VOICED_DB) or span
        first = latency.first_partial_after(take, voiced.onset)
        after_faint = latency.first_partial_after(take, span.onset)
        word = latency.first_word_right(take, clip.reference)
        finals += [] if final is None else [1000 * final]
        firsts += [] if first is None else [1000 * first]
        faint += [] if after_faint is None else [1000 * after_faint]
        right += [] if word is None else [word]
    early = sum(value < 0 for value in finals)
    note = f"{len(finals)} clips" + (f", {early} before the end of speech" if early else "")
    for q in (50, 95, 99):
        bench.add(
            f"{prefix}final.p{q}",
            f"{whose}end of speech → final p{q}",
            percentile(finals, q),
            "ms",
            note,
        )
    for q in (50, 95):
        bench.add(
            f"{prefix}first.p{q}",
            f"{whose}first partial after onset p{q}",
            percentile(firsts, q),
            "ms",
            f"{len(firsts)} clips",
        )
        bench.add(
            f"{prefix}first.faint.p{q}",
            f"{whose}first partial after the first sound within 30 dB p{q}",
            percentile(faint, q),
            "ms",
            "the noise floor, in many clips",
        )
    bench.add(
        f"{prefix}first.right",
        f"{whose}first partial: first word right",
        share(sum(right), len(right)),
        "%",
        f"{sum(right)} of {len(right)}",
    )
