"""A ten-minute file through `edge-runtime transcribe`, on one thread."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from edge_runtime import words
from edge_runtime.audio import RATE
from edge_runtime.bench import server
from edge_runtime.bench.bench import Bench
from edge_runtime.bench.manifest import Clip
from edge_runtime.errors import DeviceError

SECONDS = 600


def measure(bench: Bench) -> None:
    """Adds `file.*`: clips as they are, one after the other, until ten minutes are full.

    The cost is that of the whole command, start and loading included.
    """
    clips = list(_filling(bench))
    pcm = np.concatenate([clip.pcm for clip in clips])
    seconds = len(pcm) / RATE
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ten-minutes.flac"
        _write(path, pcm)
        with bench.bar(f"transcribe a file of {seconds:.0f} s", 1):
            text, cpu, wall = _transcribe(bench, path)
    score = words.score(" ".join(clip.reference for clip in clips), text)
    note = f"{seconds:.0f} s, {len(clips)} clips"
    bench.add("file.cpu", "file: CPU seconds per audio second", cpu / seconds, "s/s", note)
    bench.add("file.speed", "file: times faster than real time", seconds / wall, "×")
    bench.add("file.wer", "file: WER", score.rate, "%", f"{score.words} words")
    texts = bench.texts(clips, "the file, clip by clip")
    apart = words.total([(c.reference, text) for c, text in zip(clips, texts, strict=True)])
    bench.add("file.clips", "the file's clips one by one, whole: WER", apart.rate, "%")


def _filling(bench: Bench) -> Iterator[Clip]:
    """Clean clips in the manifest's order, ten minutes of them (less when quick)."""
    total = 0.0
    for clip in bench.some(bench.manifest.clean):
        yield clip
        total += clip.seconds
        if total >= SECONDS:
            return


def _write(path: Path, pcm: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
    import soundfile

    soundfile.write(path, pcm, RATE, subtype="PCM_16")


def _transcribe(bench: Bench, path: Path) -> tuple[str, float, float]:
    """The text of a file, processor seconds and seconds; raises `DeviceError`."""
    options = server.arguments(bench.options.model, bench.options.device, bench.options.config)
    command = [
        sys.executable,
        "-m",
        "edge_runtime",
        "transcribe",
        "--threads",
        "1",
        *options,
        str(path),
    ]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        began = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=log, start_new_session=True)
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except KeyboardInterrupt:
            child.kill()
            child.wait()
            raise
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - began
        out.seek(0)
        log.seek(0)
        if child.returncode:
            raise DeviceError(
                f"transcribe ended with code {child.returncode}: "
                f"{log.read().decode(errors='replace')[-500:].strip()}",
                "Run `edge-runtime transcribe` on a file to see why.",
            )
        return out.read().decode(), usage.ru_utime + usage.ru_stime, wall
