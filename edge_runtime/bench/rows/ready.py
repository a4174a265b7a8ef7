"""How long `serve` takes from its start until /readyz answers 200."""

from __future__ import annotations

from edge_runtime.bench.bench import Bench
from edge_runtime.bench.percentile import percentile
from edge_runtime.errors import ConfigError

TIMES = 3


def measure(bench: Bench) -> None:
    """Adds `ready`: the median of three starts, the model in the store."""
    if bench.options.url:
        raise ConfigError("the row ready starts servers of its own", "Leave --url out.")
    found: list[float] = []
    with bench.bar("starts of the server", TIMES) as step:
        for _ in range(TIMES):
            with bench.server() as ours:
                found.append(ours.ready_after or 0.0)
            step()
    bench.add(
        "ready",
        "serve ready",
        percentile(found, 50),
        "s",
        f"{TIMES} starts, {min(found):.2f} to {max(found):.2f} s",
    )
