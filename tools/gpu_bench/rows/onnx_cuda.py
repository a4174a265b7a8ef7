"""Our own onnxruntime-CUDA device beside TensorRT: the same work and the same update."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from gpu_bench import child, report
from gpu_bench.bench import Bench
from gpu_bench.rows import passes

PATIENCE = 120.0


def measure(bench: Bench) -> None:
    """Adds `onnx.*`: its float16 figures, and its time over ours."""
    options = bench.options
    changes = {}
    if options.ort:
        paths = (options.ort, str(child.ROOT), os.environ.get("PYTHONPATH"))
        changes["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "onnx.json"
        command = child.python(
            "--device", "onnx-cuda", "--rows", "passes,update", "--precisions", "fp16",
            "--clips", str(options.clips), "--reference", str(options.reference),
            "--model", options.model, "--count", "100", "--json", str(out), "--plain",
        )  # fmt: skip
        bench.attempt("onnx process", child.lines, command, _unheard, PATIENCE, changes)
        found = child.record(out)
    for row, why in found["failed"].items():
        bench.failed[f"onnx {row}"] = why
        bench.say(f"onnx {row} FAILED: {why}")
    gpu = found["hardware"].get("gpu", {})
    bench.hardware.setdefault("gpu", {})["onnx_cuda"] = gpu.get("device", "")
    for figure in report.figures_of(found):
        bench.take(
            replace(figure, name=f"onnx.{figure.name}", label=f"onnxruntime-CUDA: {figure.label}")
        )
    _compare(bench)


def _compare(bench: Bench) -> None:
    theirs = bench.needed("onnx.work.fp16.p50")
    ours = passes.work(bench, "fp16")
    bench.add(
        "onnx.times",
        "encoder and draft check: onnxruntime-CUDA's time over ours",
        theirs / ours,
        "×",
        f"{theirs:.3g} ms over {ours:.3g} ms",
    )
    update = bench.figures.value("update.fp16.p50")
    other = bench.figures.value("onnx.update.fp16.p50")
    if update is not None and other is not None:
        bench.add(
            "onnx.update.times",
            "one update: onnxruntime-CUDA's time over ours",
            other / update,
            "×",
            f"{other:.3g} ms over {update:.3g} ms",
        )


def _unheard(line: str) -> None:
    """What the child prints stands in its JSON."""
