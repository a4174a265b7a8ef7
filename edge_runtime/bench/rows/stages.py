"""Where the time of updates went, and how many tokens the drafts saved, from /metrics."""

from __future__ import annotations

from edge_runtime.bench.bench import Bench
from edge_runtime.bench.percentile import share
from edge_runtime.bench.scrape import Scrape

_STAGES = ("queue", "encode", "draft", "decode", "emit")
_SECONDS = "edge_runtime_stage_seconds"
_TOKENS = "edge_runtime_tokens_total"


def add(bench: Bench, grown: Scrape) -> None:
    """Adds `hop.*`, `draft.share` and `updates.*` from what grew while the clips were played."""
    for stage in _STAGES:
        average = grown.mean(_SECONDS, purpose="partial", stage=stage)
        high = grown.quantile(_SECONDS, 0.95, purpose="partial", stage=stage)
        bench.add(
            f"hop.{stage}",
            f"hop latency, {stage}, mean",
            None if average is None else 1000 * average,
            "ms",
            "" if high is None else f"p95 about {1000 * high:.0f} ms",
        )
    produced = grown.value(_TOKENS, kind="produced")
    accepted = grown.value(_TOKENS, kind="accepted")
    own = grown.value(_TOKENS, kind="bonus")
    known = produced is not None and accepted is not None and own is not None
    bench.add(
        "draft.share",
        "draft share of all tokens",
        share((accepted or 0) + (own or 0), produced or 0) if known else None,
        "%",
        f"{produced or 0:.0f} tokens" if known else "the server does not count them",
    )
    for purpose in ("partial", "speculative", "final"):
        bench.add(
            f"updates.{purpose}",
            f"updates decoded, {purpose}",
            grown.value("edge_runtime_updates_total", purpose=purpose),
        )
    bench.add(
        "stable.withheld",
        "texts withheld for contradicting stable words",
        grown.value("edge_runtime_stable_conflicts_total"),
    )
