"""A chapter read without a pause, so that the length cap must cut it."""

from __future__ import annotations

import numpy as np

from edge_runtime import words
from edge_runtime.bench import energy
from edge_runtime.bench.bench import Bench
from edge_runtime.bench.client import Playing, play
from edge_runtime.bench.take import Take

PATIENT_MS = 1000
"""An endpoint that the reader hardly ever gives: nearly every cut is the cap's."""


def measure(bench: Bench) -> None:
    """Adds `joined.*`: the chapter's clips, each trimmed to its speech, put together.

    Once at the default endpoint, where most cuts are the endpointer's, and once at
    `PATIENT_MS`, where they are the cap's.
    """
    clips = bench.some(bench.manifest.chapter)
    pcm = np.concatenate([energy.trimmed(clip.pcm) for clip in clips])
    reference = " ".join(clip.reference for clip in clips)
    texts = bench.texts(clips, "the chapter, clip by clip")
    apart = words.total([(c.reference, text) for c, text in zip(clips, texts, strict=True)])
    bench.add("joined.clips", "the chapter clip by clip, whole: WER", apart.rate, "%")
    for prefix, how, endpoint_ms in (
        ("joined", "joined chapter", Playing.endpoint_ms),
        ("joined.patient", f"the same, endpoint {PATIENT_MS} ms", PATIENT_MS),
    ):
        take = _played(bench, pcm, endpoint_ms)
        if take is None:
            return
        _add(bench, take, reference, prefix, how)


def _played(bench: Bench, pcm: np.ndarray, endpoint_ms: int) -> Take | None:
    found: list[Take] = []

    async def work() -> None:
        playing = Playing(paced=False, partials=False, after="stop", endpoint_ms=endpoint_ms)
        found.append(await play(server.url, "joined", pcm, playing))

    with bench.server() as server, bench.bar("the chapter, joined", 1):
        bench.run(work())
    return found[0] if found else None


def _add(bench: Bench, take: Take, reference: str, prefix: str, how: str) -> None:
    finals = [final for _, final in take.finals if final.text.strip()]
    score = words.score(reference, take.text)
    twice = words.doubled(reference, [final.text for final in finals])
    cuts = sum(final.reason == "cap" for final in finals)
    bench.add(
        f"{prefix}.wer",
        f"{how}: WER",
        score.rate,
        "%",
        f"{take.seconds:.0f} s, {score.words} words, {score.deletions} deleted",
    )
    bench.add(
        f"{prefix}.doubled",
        f"{how}: words doubled at cuts",
        len(twice),
        "",
        " ".join(twice[:8]) or f"{cuts} cuts of the cap in {len(finals)} finals",
    )
