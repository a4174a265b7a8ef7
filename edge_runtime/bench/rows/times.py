"""Word times of finals against forced alignment."""

from __future__ import annotations

from collections.abc import Sequence

from edge_runtime import words
from edge_runtime.bench.alignment import Aligner, Spoken
from edge_runtime.bench.bench import Bench
from edge_runtime.bench.client import Playing
from edge_runtime.bench.manifest import Clip
from edge_runtime.bench.percentile import mean, percentile
from edge_runtime.bench.stability import plain
from edge_runtime.bench.take import Take

_WORDS = Playing(paced=False, partials=False, words=True)


def measure(bench: Bench) -> None:
    """Adds `times.*` over every clean clip that can be aligned."""
    aligner = Aligner()
    aligned: list[tuple[Clip, list[Spoken]]] = []
    clips = bench.some(bench.manifest.clean)
    with bench.bar("forced alignment", len(clips)) as step:
        for clip in clips:
            spoken = aligner.words(clip.pcm, clip.reference)
            if spoken:
                aligned.append((clip, spoken))
            step()
    with bench.server() as server:
        takes = bench.play(server.url, [c for c, _ in aligned], _WORDS, "word times")
    if bench.interrupted():
        return
    starts: list[float] = []
    ends: list[float] = []
    for (_, spoken), take in zip(aligned, takes, strict=True):
        for one, other in errors(spoken, take):
            starts.append(1000 * one)
            ends.append(1000 * other)
    note = f"{len(aligned)} clips, {len(ends)} words"
    both = [abs(value) for value in (*starts, *ends)]
    for q in (50, 90):
        bench.add(
            f"times.p{q}",
            f"word times, error p{q}, starts and ends",
            percentile(both, q),
            "ms",
            note,
        )
    for name, values in (("start", starts), ("end", ends)):
        for q in (50, 90):
            bench.add(
                f"times.{name}.p{q}",
                f"word {name}s, error p{q}",
                percentile([abs(value) for value in values], q),
                "ms",
            )
        bench.add(
            f"times.{name}.bias", f"word {name}s, bias", mean(values), "ms", "negative: too early"
        )


def errors(spoken: Sequence[Spoken], take: Take) -> list[tuple[float, float]]:
    """(start, end) of a final's word minus the aligned one, in seconds.

    Only words that the transcript and the finals agree on are compared.
    """
    said = [
        (bare, word)
        for _, final in take.finals
        for word in final.words or ()
        for bare in plain(word.text)[:1]
    ]
    wanted = ["".join(plain(one.text)) for one in spoken]
    return [
        (said[theirs][1].start - spoken[ours].start, said[theirs][1].end - spoken[ours].end)
        for ours, theirs in words.matched(wanted, [bare for bare, _ in said])
    ]
