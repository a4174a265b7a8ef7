"""Word errors of whole-utterance decodes: clean, noisy, and words where nobody speaks."""

from __future__ import annotations

import time

from edge_runtime import words
from edge_runtime.bench.bench import Bench
from edge_runtime.words import normalised


def measure(bench: Bench) -> None:
    """Adds `wer.whole`, `cpu.whole`, `noisy.*.whole` and `speechless.whole`."""
    bench.decode  # noqa: B018 - loads the model, whose cost is not the clips'
    clips = bench.some(bench.manifest.clean)
    before = time.process_time()
    texts = bench.texts(clips, "whole utterances")
    cost = (time.process_time() - before) / sum(clip.seconds for clip in clips)
    clean = words.total([(c.reference, text) for c, text in zip(clips, texts, strict=True)])
    bench.add(
        "wer.whole",
        "WER, whole utterance",
        clean.rate,
        "%",
        f"{len(clips)} clips, {clean.words} words",
    )
    bench.add("cpu.whole", "whole utterance: CPU seconds per audio second", cost, "s/s")
    noisy = bench.some(bench.manifest.noisy)
    texts = bench.texts(noisy, "noise mixes")
    mixed = words.total([(c.reference, text) for c, text in zip(noisy, texts, strict=True)])
    if noisy:
        bench.add(
            "noisy.wer.whole",
            "noise mixes: WER, whole utterance",
            mixed.rate,
            "%",
            f"{len(noisy)} clips, {mixed.words} words",
        )
        bench.add(
            "noisy.deletions.whole", "noise mixes: deletions, whole utterance", mixed.deleted, "%"
        )
    speechless = bench.some(bench.manifest.speechless)
    if speechless:
        written = [
            word for text in bench.texts(speechless, "no speech") for word in normalised(text)
        ]
        bench.add(
            "speechless.whole",
            "words written on non-speech, whole",
            len(written),
            "",
            " ".join(written[:8]) or f"{len(speechless)} clips",
        )
