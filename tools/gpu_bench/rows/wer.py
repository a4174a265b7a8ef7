"""Word errors of whole utterances, narrower precisions against float32."""

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
    full = scores.get("fp32")
    for precision in bench.precisions:
        if precision == "fp32" or full is None or precision not in scores:
            continue
        score = scores[precision]
        bench.add(
            f"wer.{precision}.apart",
            f"WER of {precision} and fp32 apart",
            abs(score.rate - full.rate),
            "points",
            f"{score.errors - full.errors:+} words",
        )
