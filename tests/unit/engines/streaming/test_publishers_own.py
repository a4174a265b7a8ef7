"""The small models are such as are published: the publisher's own program runs them, like us."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.decode.chunked.chain import ChunkChain
from edge_runtime.decode.chunked.runner import ChunkRunner
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.tokens import Vocabulary
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.device.onnx import OnnxDevice
from tests.tiny import fastconformer, making, zipformer

PROGRAM = shutil.which("sherpa-onnx", path=f"{Path(sys.executable).parent}:{os.defpath}")

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no sherpa-onnx: pip install sherpa-onnx-bin"
)


@pytest.fixture
def pcm() -> np.ndarray:
    random = np.random.default_rng(1)
    loud = np.repeat(random.uniform(0, 1, 300), 160)
    return (random.normal(0, 3000, len(loud)) * loud).clip(-32000, 32000).astype("<i2")


def said(published: Path, pcm: np.ndarray) -> dict:
    recording = published.parent / "recording.wav"
    with wave.open(str(recording), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(pcm.tobytes())
    parts = [
        f"--{part}={path}"
        for part in ("encoder", "decoder", "joiner")
        for path in published.glob(f"{part}*.onnx")
    ]
    line = [PROGRAM, *parts, f"--tokens={published / 'tokens.txt'}", "--num-threads=1"]
    line += ["--left-padding=0", "--right-padding=0.66", str(recording)]
    run = subprocess.run(line, capture_output=True, text=True, check=True)
    (told,) = [each for each in run.stderr.splitlines() + run.stdout.splitlines()
               if each.startswith("{")]  # fmt: skip
    return json.loads(told)


def test_it_says_the_same_of_a_zipformer(tmp_path, pcm):
    published, graphs = making.exported(tmp_path, zipformer.write)
    theirs = said(published, pcm)
    chain = ChunkChain(OnnxDevice(), graphs)
    runner = ChunkRunner(chain, Size(1, len(pcm)))
    audio = pcm.astype(np.float32) / 32768
    update = Update("own", 1, Purpose.FINAL, 0, len(audio))
    (ours,) = runner.run([update], [[audio]])
    vocabulary = Vocabulary.load(graphs)
    count = len(theirs["tokens"])
    assert count > 7
    # We hear a little more silence behind the last sample.
    assert theirs["text"] == vocabulary.text(ours.tokens[:count])
    times = [frame * chain.shape.frame_seconds for frame in ours.frames[:count]]
    assert times == pytest.approx(theirs["timestamps"], abs=0.005)


def test_it_takes_a_fastconformer(tmp_path, pcm):
    """Its features are not quite those of the training, so that it may say something else."""
    published, _ = making.exported(tmp_path, fastconformer.write)
    assert len(said(published, pcm)["tokens"]) > 8
