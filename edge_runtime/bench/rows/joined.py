"""A chapter read without a pause, so that the length cap must cut it."""

from __future__ import annotations

import numpy as np

from edge_runtime.bench import energy, words
from edge_runtime.bench.bench import Bench
from edge_runtime.bench.client import Playing, play
from edge_runtime.bench.take import Take


def measure(bench: Bench) -> None:
    """Adds `joined.*`: the chapter's clips, each trimmed to its speech, put together."""
    clips = bench.some(bench.manifest.chapter)
    pcm = np.concatenate([energy.trimmed(clip.pcm) for clip in clips])
    reference = " ".join(clip.reference for clip in clips)
    texts = bench.texts(clips, "the chapter, clip by clip")
    apart = words.total([(c.reference, text) for c, text in zip(clips, texts, strict=True)])
    found: list[Take] = []

    async def work() -> None:
        playing = Playing(paced=False, partials=False, after="stop")
        found.append(await play(server.url, "joined", pcm, playing))

    with bench.server() as server, bench.bar("the chapter, joined", 1):
        bench.run(work())
    if not found:
        return
    take = found[0]
    finals = [final for _, final in take.finals if final.text.strip()]
    score = words.score(reference, take.text)
    twice = words.doubled(reference, [final.text for final in finals])
    cuts = sum(final.reason == "cap" for final in finals)
    bench.add(
        "joined.wer",
        "joined chapter: WER",
        score.rate,
        "%",
        f"{take.seconds:.0f} s, {score.words} words, {score.deletions} deleted",
    )
    bench.add("joined.clips", "the chapter clip by clip, whole: WER", apart.rate, "%")
    bench.add(
        "joined.doubled",
        "joined chapter: words doubled at cuts",
        len(twice),
        "",
        " ".join(twice[:8]) or f"{cuts} cuts of the cap in {len(finals)} finals",
    )
