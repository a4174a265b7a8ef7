"""Tokens against the CPU's: every one after the same tokens before it, and freely decoded."""

from __future__ import annotations

from functools import partial

from edge_runtime.decode.update import Hypothesis
from gpu_bench import forcing
from gpu_bench.bed import Bed
from gpu_bench.bench import Bench
from gpu_bench.forcing import Comparison
from gpu_bench.reference import Clip

NEAR = {"fp32": 1e-3, "fp16": 0.1}
"""Margins below which another token is a matter of rounding."""


def measure(bench: Bench) -> None:
    """Adds `tokens.*` in every precision."""
    for precision in bench.precisions:
        bench.attempt(f"tokens {precision}", _forced, bench, precision)
        bench.attempt(f"tokens {precision} texts", _free, bench, precision)


def _forced(bench: Bench, precision: str) -> None:
    bed, near = bench.bed(precision), NEAR[precision]
    found = Comparison()
    for clip in bench.clips.all:
        found.add(forcing.compare(clip, partial(_decode, bench, bed, clip), near))
    bench.add(
        f"tokens.{precision}.different",
        f"{precision}: tokens that are not the CPU's, after the CPU's before them",
        len(found.different),
        "",
        _told(found.compared, forcing.listed(found.different)),
    )
    bench.add(
        f"tokens.{precision}.excused",
        f"{precision}: the same at a margin below {near:g}",
        len(found.excused),
        "",
        forcing.listed(found.excused),
    )


def _decode(
    bench: Bench, bed: Bed, clip: Clip, forced: tuple[int, ...], draft: tuple[int, ...]
) -> Hypothesis:
    return bed.decode([bench.clips.audio(clip)], draft, forced)


def _free(bench: Bench, precision: str) -> None:
    bed, clips = bench.bed(precision), bench.clips.all
    said = bench.free(precision)
    differing = [
        clip.id for clip, each in zip(clips, said, strict=True) if bed.text(each) != clip.text
    ]
    near = sum(margin < NEAR[precision] for each in said for margin in each.margins)
    bench.add(
        f"texts.{precision}.different",
        f"{precision}: clips whose text, decoded from scratch, is not the CPU's",
        len(differing),
        "",
        _told(len(clips), " ".join(differing[:6])),
    )
    bench.add(
        f"ties.{precision}",
        f"{precision}: tokens whose margin is below {NEAR[precision]:g}",
        near,
        "",
        f"of {sum(len(each.tokens) for each in said)}",
    )


def _told(whole: int, which: str) -> str:
    return f"of {whole}: {which}" if which else f"of {whole}"
