"""Words lost when `stop` or `flush` follows the last sample of speech at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edge_runtime import words
from edge_runtime.bench import energy
from edge_runtime.bench.bench import Bench
from edge_runtime.bench.client import After, Playing
from edge_runtime.bench.manifest import Clip, spread
from edge_runtime.bench.take import Take

CLIPS = 40


def measure(bench: Bench) -> None:
    """Adds `stop.*` and `flush.*`: 40 clips cut at the end of speech, paced, no silence sent."""
    clips = bench.some(spread(bench.manifest.clean, CLIPS))
    cut = [_cut(clip) for clip in clips]
    wanted = bench.texts(cut, "whole, cut at the end of speech")
    with bench.server() as server:
        endings: tuple[After, ...] = ("stop", "flush")
        for after in endings:
            takes = bench.play(
                server.url,
                cut,
                Playing(after=after),
                f"{after} at once, paced",
                max(4, bench.options.streams),
            )
            if bench.interrupted():
                return
            _score(bench, after, cut, wanted, takes)


def _cut(clip: Clip) -> Clip:
    """The clip up to its end of speech, under a name of its own."""
    span = energy.speech(clip.pcm)
    short = replace(clip, name=f"{clip.name}, cut")
    short.__dict__["pcm"] = clip.pcm[: span.end] if span else clip.pcm
    return short


def _score(
    bench: Bench, after: str, clips: Sequence[Clip], wanted: Sequence[str], takes: Sequence[Take]
) -> None:
    lost: list[str] = []
    dropped: list[str] = []
    damaged = 0
    for clip, whole, take in zip(clips, wanted, takes, strict=True):
        lost += words.lost(clip.reference, whole, take.text)
        dropped += words.dropped(whole, take.text)
        damaged += words.normalised(whole)[-2:] != words.normalised(take.text)[-2:]
    bench.add(
        f"{after}.lost",
        f"{after} right after speech: words lost",
        len(lost),
        "",
        " ".join(lost[:8]) or f"{len(takes)} clips",
    )
    bench.add(
        f"{after}.dropped",
        f"{after} right after speech: words of the whole decode, right or wrong, dropped",
        len(dropped),
        "",
        " ".join(dropped[:8]),
    )
    bench.add(
        f"{after}.damaged",
        f"{after} right after speech: last two words not the same",
        damaged,
        "clips",
        f"of {len(takes)}",
    )
