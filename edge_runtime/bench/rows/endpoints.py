"""Word errors at several endpoints: finals only, as fast as the server reads."""

from __future__ import annotations

from edge_runtime import words
from edge_runtime.bench.bench import Bench
from edge_runtime.bench.client import Playing

ENDPOINTS = (300, 500, 700, 1000)


def measure(bench: Bench) -> None:
    """Adds `wer.endpoint.*` and `segments.endpoint.*`."""
    clips = bench.some(bench.manifest.clean)
    with bench.server() as server:
        for ms in ENDPOINTS:
            playing = Playing(paced=False, partials=False, endpoint_ms=ms)
            takes = bench.play(server.url, clips, playing, f"endpoint {ms} ms")
            if bench.interrupted():
                return
            score = words.total([(c.reference, t.text) for c, t in zip(clips, takes, strict=True)])
            bench.add(
                f"wer.endpoint.{ms}",
                f"WER, endpoint {ms} ms, no partials",
                score.rate,
                "%",
                f"{len(takes)} clips",
            )
            bench.add(
                f"segments.endpoint.{ms}",
                f"finals a clip, endpoint {ms} ms",
                sum(len(take.finals) for take in takes) / len(takes),
            )
