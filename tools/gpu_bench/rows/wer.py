"""Word errors of whole utterances, float16 against float32."""

from __future__ import annotations

from edge_runtime import words
from edge_runtime.words import Score
from gpu_bench.bench import Bench


def measure(bench: Bench) -> None:
    """Adds `wer.*` of every precision, of the CPU, and how far they are apart."""
    clips = bench.clips.all
    scores: dict[str, Score] = {}

    def count(precision: str) -> None:
        bed = bench.bed(precision)
        said = [bed.text(each) for each in bench.free(precision)]
        scores[precision] = words.total(
            [(clip.transcript, text) for clip, text in zip(clips, said, strict=True)]
        )

    for precision in bench.precisions:
        bench.attempt(f"wer {precision}", count, precision)
    scores["reference"] = words.total([(clip.transcript, clip.text) for clip in clips])
    for name, score in scores.items():
        bench.add(
            f"wer.{name}",
            f"{name}: WER of whole utterances",
            score.rate,
            "%",
            f"{score.errors} of {score.words} words, {len(clips)} clips",
        )
    if {"fp16", "fp32"} <= scores.keys():
        half, full = scores["fp16"], scores["fp32"]
        bench.add(
            "wer.apart",
            "WER of float16 and float32 apart",
            abs(half.rate - full.rate),
            "points",
            f"{half.errors - full.errors:+} words",
        )
