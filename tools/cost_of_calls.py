"""What the calls of metrics and traces cost for each update: CPU time, all ways by turns.

    python tools/cost_of_calls.py

An update is made up, its costs are not: what is called here is what a server calls for each.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from multiprocessing import Process

from edge_runtime.decode.update import Cost, Hypothesis, Purpose, Update
from edge_runtime.device.onnx import HostMark
from edge_runtime.metrics import Metrics
from edge_runtime.runtime.tracing import Recorder, Tracer, Untraced
from edge_runtime.runtime.tracing.otel import Otel
from edge_runtime.runtime.tracing.ranges import Unmarked

ROUNDS, UPDATES, SENT = 30, 100, 600
FRAMES = 6
"""Of the voice detector, for one partial."""
LOOKS = 5

UPDATE = Update("s1", 1, Purpose.PARTIAL, 0, 64_000)
COST = Cost(0.01, 0.1, 0.02, 0.2, 10, 8, 1, 12, 6, 5, 6)
HYPOTHESIS = Hypothesis(
    UPDATE, (5,) * 12, (-0.1,) * 12, (3.0,) * 12, (1,) * 12, True, 40, cost=COST
)

Way = Callable[[], None]


class Taking(BaseHTTPRequestHandler):
    """Takes what is posted."""

    def do_POST(self) -> None:
        """Read it, and be content."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def counted() -> Way:
    """All metrics of an update."""
    metrics = Metrics()

    def run() -> None:
        metrics.update("partial", COST)
        metrics.device.update("partial", 6, 0)
        for kind in ("audio", "length", "tokens", "results"):
            metrics.device.copied(kind, 100)
        metrics.device.graphs(3, 0, 0)
        for kind in ("samples", "queries"):
            metrics.device.padded(kind, 10, 1)

    return run


def traced(tracer: Tracer) -> Way:
    """All that a tracer is told of an update."""
    tracer.opened("s1")
    watch = tracer.watch(0)

    def run() -> None:
        watch.begin([UPDATE])
        for stage in ("encode", "draft", *["decode"] * LOOKS):
            watch.stage(stage, HostMark())
        watch.end(HostMark())
        for _ in range(FRAMES):
            now = time.perf_counter()
            tracer.heard(now, now, 1)
        now = time.perf_counter()
        tracer.merged(HYPOTHESIS, now, now, now)

    return run


def main() -> None:
    """Print µs for each update."""
    server = HTTPServer(("127.0.0.1", 0), Taking)
    collector = Process(target=server.serve_forever, daemon=True)
    collector.start()
    otel = Otel(f"http://127.0.0.1:{server.server_port}", lambda: {"model": "m", "device": "cpu"})
    ways = {
        "metrics": counted(),
        "no traces": traced(Untraced()),
        "OpenTelemetry": traced(otel),
        "profile": traced(Recorder(Unmarked)),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, run in ways.items():
            began = time.thread_time()
            for _ in range(UPDATES):
                run()
            found[name].append(1e6 * (time.thread_time() - began) / UPDATES)
        time.sleep(0.05)
    print("CPU time of the thread that serves, µs for each update:")
    for name, each in found.items():
        print(f"  {name:<14} {statistics.median(each):6.1f}   slowest round {max(each):6.1f}")
    print("of the whole process, sending included:")
    for name in ("no traces", "OpenTelemetry"):
        began = time.process_time()
        for _ in range(SENT):
            ways[name]()
            time.sleep(0.01)
        otel.flush()
        print(f"  {name:<14} {1e6 * (time.process_time() - began) / SENT:6.1f}")
    collector.terminate()


if __name__ == "__main__":
    main()
