"""Our voice detector against the published one: the same numbers, and a batch like single rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import soundfile

from edge_runtime.engines.export import silero
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.errors import ModelDamaged, ModelMissing

FILE = "silero_vad_16k_sequence.onnx"
CLIPS = [
    "librispeech_mini_train_clean5/1088-134315-0003.flac",
    "librispeech_mini_train_clean5/4640-19188-0003.flac",
    "nonspeech/noise1.flac",
]


@pytest.fixture(scope="module")
def folder(published) -> Path:
    return published("silero-vad")


@pytest.fixture(scope="module")
def exported(folder, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("vad")
    silero.export(load_recipe("silero-vad"), folder, out)
    return out / "vad.onnx"


@pytest.fixture(scope="module")
def ours(exported) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(exported))


@pytest.fixture(scope="module")
def theirs(folder) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(folder / FILE))


@pytest.fixture(scope="module")
def windows(data) -> list[np.ndarray]:
    """(frames, 576) of each clip: a frame, and the 64 samples before it."""
    found = []
    for clip in CLIPS:
        path = data / clip
        audio, rate = soundfile.read(path if path.exists() else path.with_suffix(".wav"))
        assert rate == 16000
        count = len(audio) // 512
        padded = np.concatenate([np.zeros(64), audio[: count * 512]]).astype(np.float32)
        found.append(np.stack([padded[i * 512 : i * 512 + 576] for i in range(count)]))
    return found


def run(session, audio: np.ndarray, at_once: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(frames, rows, 576), some at a time: probabilities (frames, rows), and the last states."""
    rows = audio.shape[1]
    h, c = np.zeros((rows, 128), np.float32), np.zeros((rows, 128), np.float32)
    heard = []
    for start in range(0, len(audio), at_once):
        some = audio[start : start + at_once]
        places = np.arange(len(some) * rows).reshape(-1, rows)
        given = {
            "audio": some.reshape(-1, 576), "rows": places,
            "frames": np.full(rows, len(some), np.int32), "h": h, "c": c,
        }  # fmt: skip
        probability, h, c = session.run(["probability", "h_next", "c_next"], given)
        heard.append(probability)
    return np.concatenate(heard), h, c


@pytest.mark.parametrize("at_once", [1, 8])
@pytest.mark.parametrize("clip", range(len(CLIPS)))
def test_hears_what_the_published_graph_hears(ours, theirs, windows, clip, at_once):
    zero = np.zeros((1, 1, 128), np.float32)
    wanted, h, c = theirs.run(None, {"input": windows[clip], "h": zero, "c": zero})
    found, h_last, c_last = run(ours, windows[clip][:, None], at_once)
    assert np.abs(found[:, 0] - wanted).max() <= 1e-5
    assert np.abs(h_last - h[0]).max() <= 1e-4
    assert np.abs(c_last - c[0]).max() <= 1e-4


def test_tells_speech_from_noise(ours, windows):
    speech, _, _ = run(ours, windows[0][:, None])
    noise, _, _ = run(ours, windows[2][:, None])
    assert np.mean(speech > 0.5) > 0.6
    assert np.mean(noise > 0.5) < 0.05


def test_a_row_of_a_batch_is_as_if_alone(ours, windows):
    frames = min(len(window) for window in windows)
    batch = np.stack([window[:frames] for window in windows], axis=1)
    together, _, _ = run(ours, batch)
    for row, window in enumerate(windows):
        alone, _, _ = run(ours, window[:frames, None])
        assert np.abs(together[:, row] - alone[:, 0]).max() <= 1e-6


def test_the_graph_keeps_to_what_every_device_parses(exported):
    model = onnx.load(str(exported))
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version <= 10
    assert [(item.domain, item.version <= 18) for item in model.opset_import] == [("", True)]
    banned = {"If", "Loop", "Scan", "NonZero", "IsNaN"}
    assert banned.isdisjoint(node.op_type for node in model.graph.node)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(ModelMissing, match="pull silero-vad"):
        silero.export(load_recipe("silero-vad"), tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda model: model.graph.initializer.pop(), "tensor|is float32"),
        (lambda model: setattr(model.graph.initializer[1], "name", "other"), "encoder.0.weight"),
        (lambda model: model.graph.ClearField("node"), "has no LSTM"),
    ],
)
def test_damage_is_named(folder, tmp_path, harm, said):
    model = onnx.load(str(folder / FILE))
    harm(model)
    onnx.save(model, str(tmp_path / FILE))
    with pytest.raises(ModelDamaged, match=said):
        silero.export(load_recipe("silero-vad"), tmp_path, tmp_path)


def test_a_file_cut_off_is_damage(folder, tmp_path):
    (tmp_path / FILE).write_bytes((folder / FILE).read_bytes()[:100_000])
    with pytest.raises(ModelDamaged, match="cannot be read"):
        silero.export(load_recipe("silero-vad"), tmp_path, tmp_path)
