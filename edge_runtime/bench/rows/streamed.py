"""What a listener gets, paced like a microphone: words, latency, stability and cost."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from edge_runtime import words
from edge_runtime.bench import flicker, peer, stability
from edge_runtime.bench.bench import Bench, each
from edge_runtime.bench.client import Playing, play_clip
from edge_runtime.bench.manifest import Clip
from edge_runtime.bench.percentile import share
from edge_runtime.bench.rows import firm, stages, waits
from edge_runtime.bench.server import Server
from edge_runtime.bench.take import Take
from edge_runtime.words import normalised

_PACED = Playing()


@dataclass
class _Played:
    """Takes by clip name, ours and the peer's."""

    ours: dict[str, Take] = field(default_factory=dict)
    theirs: dict[str, Take] = field(default_factory=dict)


def measure(bench: Bench) -> None:
    """Adds the streamed figures of clean, noisy and speechless clips, and the peer's."""
    clean = bench.some(bench.manifest.clean)
    python = peer.environment(bench.options.peer) if bench.options.peer else None
    with bench.server() as server:
        before = server.scrape()
        played = _Played()

        async def work() -> None:
            async with contextlib.AsyncExitStack() as stack:
                other = None
                if python is not None:
                    other = await stack.enter_async_context(
                        peer.running(bench.options.peer, python)
                    )
                await _play(bench, server, clean, played, other)

        bench.run(work())
        _clean(bench, server, [c for c in clean if c.name in played.ours], played)
        stages.add(bench, server.scrape() - before)
        if not bench.interrupted():
            _noisy(bench, server)
        if not bench.interrupted():
            _speechless(bench, server)


async def _play(
    bench: Bench, server: Server, clips: Sequence[Clip], played: _Played, other: peer.Peer | None
) -> None:
    """Each clip to us and then to the peer, so that both meet the same machine."""
    with bench.bar("streamed, paced", len(clips)) as step:

        async def one(clip: Clip) -> None:
            used = server.cpu()
            take = await play_clip(server.url, clip, _PACED)
            now = server.cpu()
            cost = None if used is None or now is None else now - used
            played.ours[clip.name] = Take(take.clip, take.seconds, take.arrivals, cost)
            if other is not None:
                played.theirs[clip.name] = await other.play(clip)
            step()

        await each(clips, one, bench.options.streams)


def _clean(bench: Bench, server: Server, clips: Sequence[Clip], played: _Played) -> None:
    takes = [played.ours[clip.name] for clip in clips]
    if not takes:
        return
    bench.takes += takes
    _texts(bench, clips, takes)
    waits.add(bench, clips, takes)
    _cost(bench, server, takes)
    firm.add(bench, clips, takes)
    theirs = [played.theirs[clip.name] for clip in clips if clip.name in played.theirs]
    if theirs:
        _peer(bench, [clip for clip in clips if clip.name in played.theirs], theirs)


def _texts(bench: Bench, clips: Sequence[Clip], takes: Sequence[Take]) -> None:
    score = words.total([(c.reference, t.text) for c, t in zip(clips, takes, strict=True)])
    bench.add(
        "wer.streamed",
        "WER of streamed finals",
        score.rate,
        "%",
        f"{len(clips)} clips, {score.words} words, {score.deletions} deleted",
    )
    segments = sum(len(take.finals) for take in takes)
    bench.add("segments", "finals a clip", segments / len(takes))
    seconds = sum(take.seconds for take in takes)
    bench.add(
        "partials.rate", "partials a second", sum(len(take.partials) for take in takes) / seconds
    )


def _cost(bench: Bench, server: Server, takes: Sequence[Take]) -> None:
    """Processor time over the clips' own seconds: silence sent after them is not in it.

    With several clips at a time, one clip's time counts its neighbours', so the
    sum is divided by the number of streams.
    """
    used = [take.cpu for take in takes if take.cpu is not None]
    seconds = sum(take.seconds for take in takes)
    streams = bench.options.streams
    known = len(used) == len(takes)
    bench.add(
        "cpu",
        "CPU seconds per audio second",
        sum(used) / seconds / streams if known else None,
        "s/s",
        f"{streams} stream{'s' if streams > 1 else ''}"
        if known
        else "not our process, or no /proc",
    )
    peak = server.process.peak() if server.process else None
    bench.add("memory.peak", "peak memory of the server", peak / 2**20 if peak else None, "MB")


def _peer(bench: Bench, clips: Sequence[Clip], takes: Sequence[Take]) -> None:
    name = bench.options.peer
    score = words.total([(c.reference, t.text) for c, t in zip(clips, takes, strict=True)])
    seconds = sum(take.seconds for take in takes)
    bench.add("peer.wer", f"{name}: WER of streamed finals", score.rate, "%", f"{len(clips)} clips")
    bench.add(
        "peer.cpu",
        f"{name}: CPU seconds per audio second",
        sum(take.cpu or 0.0 for take in takes) / seconds,
        "s/s",
    )
    bench.add(
        "peer.partials.rate",
        f"{name}: partials a second",
        sum(len(take.partials) for take in takes) / seconds,
    )
    shaken = flicker.of(takes)
    bench.add(
        "peer.flicker",
        f"{name}: changed words per final word",
        shaken.partials / (shaken.words or 1),
    )
    bench.add(
        "peer.memory.peak",
        f"{name}: peak memory",
        max(take.extra.get("peak", 0.0) for take in takes) / 2**20,
        "MB",
    )
    waits.add(bench, clips, takes, "peer.", f"{name}: ")


def _noisy(bench: Bench, server: Server) -> None:
    clips = bench.some(bench.manifest.noisy)
    takes = bench.play(server.url, clips, _PACED, "noise mixes, paced", bench.options.streams)
    if not takes:
        return
    bench.takes += takes
    score = words.total([(c.reference, t.text) for c, t in zip(clips, takes, strict=False)])
    bench.add(
        "noisy.wer",
        "noise mixes: WER of streamed finals",
        score.rate,
        "%",
        f"{len(takes)} clips, {score.words} words",
    )
    bench.add("noisy.deletions", "noise mixes: deletions, streamed", score.deleted, "%")
    found = stability.of(takes)
    bench.add(
        "noisy.stable.conflicts",
        "noise mixes: stable conflicts, words of the finals",
        share(found.conflicts, found.words),
        "%",
        f"{found.conflicts} words",
    )
    bench.add(
        "noisy.stable.taken_back", "noise mixes: stable text taken back", found.taken_back, "times"
    )
    bench.add(
        "noisy.stable.broken",
        "noise mixes: finals that do not begin with the last stable",
        found.broken,
    )


def _speechless(bench: Bench, server: Server) -> None:
    clips = bench.some(bench.manifest.speechless)
    takes = bench.play(server.url, clips, _PACED, "no speech, paced", bench.options.streams)
    if not takes:
        return
    bench.takes += takes
    written = [word for take in takes for word in normalised(take.text)]
    shown = sum(bool((p.stable + p.unstable).strip()) for take in takes for _, p in take.partials)
    bench.add(
        "speechless.streamed",
        "words written on non-speech, streamed",
        len(written),
        "",
        " ".join(written[:8]) or f"{len(takes)} clips",
    )
    bench.add("speechless.partials", "partials with text on non-speech", shown)
