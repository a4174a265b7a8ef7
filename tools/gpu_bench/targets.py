"""What the figures must reach on an H200: one stream, 8 s segment, 25 draft tokens, float16."""

from __future__ import annotations

from edge_runtime.bench.figure import Target

TARGETS = (
    Target("tokens.fp32.different", "≤", 0),
    Target("wer.fp16.apart", "≤", 0.2, "points"),
    Target("encode.fp16.p50", "≤", 0.6, "ms"),
    Target("check.fp16.p50", "≤", 0.4, "ms"),
    Target("step.fp16.p50", "≤", 200, "µs"),
    Target("update.fp16.p50", "≤", 1.8, "ms"),
    Target("update.fp16.p99", "≤", 3.5, "ms"),
    Target("update.fp16.waits", "≤", 3),
    Target("first.fp16.p50", "≤", 1.1, "ms"),
    Target("peer.times", "≥", 2.5, "×"),
    Target("streamed.hits", "≥", 99, "%"),
    Target("streamed.allocations", "≤", 0),
    Target("streamed.waits.p95", "≤", 3),
    Target("batch.different", "≤", 0),
    Target("batch.times.1", "≥", 2.8, "×"),
    Target("batch.single.worse", "≤", 8, "ms"),
    Target("start.share", "≤", 37, "%"),
    Target("silence.awake", "≤", 2, "×"),
)

BY_FIGURE = {target.figure: target for target in TARGETS}
