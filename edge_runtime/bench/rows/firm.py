"""How firm the text of partials is: stable words, their lag, and the tail that changes."""

from __future__ import annotations

from collections.abc import Sequence

from edge_runtime import words
from edge_runtime.bench import flicker, stability
from edge_runtime.bench.alignment import Aligner
from edge_runtime.bench.bench import Bench
from edge_runtime.bench.manifest import Clip
from edge_runtime.bench.percentile import percentile, share
from edge_runtime.bench.take import Take


def add(bench: Bench, clips: Sequence[Clip], takes: Sequence[Take]) -> None:
    """Adds `stable.*` and `flicker*`."""
    found = stability.of(takes)
    bench.add("stable.taken_back", "stable text taken back", found.taken_back, "times")
    bench.add("stable.broken", "finals that do not begin with the last stable", found.broken)
    bench.add(
        "stable.share",
        "words stable before their final",
        share(found.stable, found.words),
        "%",
        f"{found.stable} of {found.words}",
    )
    bench.add(
        "stable.conflicts",
        "stable conflicts, words of the finals",
        share(found.conflicts, found.words),
        "%",
        f"{found.conflicts} words",
    )
    lags, heard = lags_of(clips, takes)
    for q in (50, 90):
        bench.add(
            f"stable.lag.p{q}",
            f"lag of stable text p{q}, as it arrives",
            percentile(lags, q),
            "s",
            f"{len(lags)} words",
        )
        bench.add(
            f"stable.lag.heard.p{q}",
            f"lag of stable text p{q}, in audio heard",
            percentile(heard, q),
            "s",
        )
    shaken = flicker.of(takes)
    total = shaken.words or 1
    bench.add("flicker", "changed words of the tail per final word", shaken.partials / total)
    bench.add(
        "flicker.final",
        "the same, with the finals' own changes",
        (shaken.partials + shaken.final) / total,
    )
    bench.add(
        "flicker.literal", "the same between partials, compared as written", shaken.literal / total
    )


def lags_of(clips: Sequence[Clip], takes: Sequence[Take]) -> tuple[list[float], list[float]]:
    """Seconds from the end of a word to when it was stable: as it arrived, in audio heard.

    The end comes from forced alignment of the transcript, so only words that
    the final has right, of clips that can be aligned, are counted.
    """
    aligner = Aligner()
    arrived: list[float] = []
    heard: list[float] = []
    for clip, take in zip(clips, takes, strict=True):
        locked = stability.locked(take)
        spoken = aligner.words(clip.pcm, clip.reference) if locked else None
        if spoken is None:
            continue
        said = [w for _, final in take.finals for w in stability.plain(final.text)]
        wanted = [w for one in spoken for w in stability.plain(one.text)]
        if len(wanted) != len(spoken):
            continue
        ends = {theirs: spoken[ours].end for ours, theirs in words.matched(wanted, said)}
        arrived += [one.at - ends[one.word] for one in locked if one.word in ends]
        heard += [one.heard - ends[one.word] for one in locked if one.word in ends]
    return arrived, heard
