"""The weight readers on the published files: every tensor, and every way they can be wrong."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import safetensors.numpy
import soundfile

from edge_runtime.engines import weights
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.errors import ModelDamaged, ModelMissing

TABLE, HEAD = "model.decoder.embed_tokens.weight", "proj_out.weight"
GOLDEN = Path(__file__).parents[1] / "golden" / "moonshine-tiny-en.npz"


@pytest.fixture(scope="module")
def recipe():
    return load_recipe("moonshine-tiny-en")


@pytest.fixture(scope="module")
def folder(published) -> Path:
    return published("moonshine-tiny-en")


@pytest.fixture(scope="module")
def tensors(recipe, folder) -> weights.Weights:
    return weights.read(recipe, folder)


def test_gives_all_of_the_model(tensors):
    assert len(tensors) == 161
    assert {array.dtype for array in tensors.values()} == {np.dtype(np.float32)}
    counted = sum(array.size for name, array in tensors.items() if name != HEAD)
    assert counted == 27_092_736


def test_both_ends_have_the_same_table(tensors):
    """Quantised twice by its makers, to the same numbers: one table does for both."""
    assert np.array_equal(tensors[TABLE], tensors[HEAD])


def test_quantised_values_lie_on_one_grid_a_tensor(tensors):
    for name in ("model.encoder.layers.3.self_attn.q_proj.weight", TABLE):
        levels = np.unique(tensors[name])
        assert 50 < len(levels) <= 256
        steps = np.diff(levels)
        assert np.allclose(steps / steps.min(), np.round(steps / steps.min()), atol=1e-2)
        assert 0.0 in levels


def test_the_oracle_with_these_weights_agrees_with_the_published_graph(folder, data):
    """The published encoder (int8 products) and the golden one (float32) see the same thing.

    A square matrix read the wrong way round would pass every check of shapes, and not this.
    """
    session = onnxruntime.InferenceSession(str(folder / "encoder_model.ort"))
    with (data / "manifest.tsv").open(newline="") as file:
        paths = {row["id"]: row["path"] for row in csv.DictReader(file, delimiter="\t")}
    golden = np.load(GOLDEN)
    audio, _ = soundfile.read(data / paths[str(golden["ids"][0])], dtype="float32")
    mask = np.ones((1, len(audio)), np.int64)
    (found,) = session.run(None, {"input_values": audio[None], "attention_mask": mask})
    found = found[0, :: int(golden["encoder_step"])]
    wanted = golden["encoder_0"]
    assert found.shape == wanted.shape
    error = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
    assert error < 0.05


def test_a_hubs_form_gives_the_same(recipe, tensors, tmp_path):
    save(tmp_path, {name: array for name, array in tensors.items() if name != HEAD})
    found = weights.read(recipe, tmp_path)
    assert found.keys() == tensors.keys()
    assert all(np.array_equal(found[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("model.encoder.conv2.bias", None, "has no tensor model.encoder.conv2.bias"),
        (TABLE, None, f"has no tensor {TABLE}"),
        ("model.decoder.norm.weight", lambda x: x[:-1], r"model.decoder.norm.weight is \(287,\)"),
        (
            "model.encoder.layers.0.mlp.fc1.weight",
            lambda x: np.ascontiguousarray(x.T),
            r"fc1.weight is \(288, 1152\), not \(1152, 288\)",
        ),
        ("model.decoder.norm.weight", lambda x: x * np.nan, "norm.weight holds numbers that are"),
        ("model.decoder.extra", lambda _: np.zeros(3, np.float32), "unknown tensor"),
    ],
)
def test_names_the_tensor_that_is_wrong(recipe, tensors, tmp_path, name, change, said):
    kept = {key: array for key, array in tensors.items() if key not in (HEAD, name)}
    if change is not None:
        kept[name] = change(tensors.get(name))
    save(tmp_path, kept)
    with pytest.raises(ModelDamaged, match=said):
        weights.read(recipe, tmp_path)


def test_bytes_that_are_no_safetensors_are_damage(recipe, tmp_path):
    save(tmp_path, {"a": np.zeros(3, np.float32)})
    (tmp_path / "model.safetensors").write_bytes(b"no such thing")
    with pytest.raises(ModelDamaged, match="cannot be read"):
        weights.read(recipe, tmp_path)


def test_an_empty_folder_is_a_missing_model(recipe, tmp_path):
    with pytest.raises(ModelMissing, match="edge-runtime pull moonshine-tiny-en"):
        weights.read(recipe, tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("file", ["encoder_model.ort", "decoder_model_merged.ort"])
def test_a_file_cut_off_is_damage(recipe, folder, tmp_path, file, share):
    copy(folder, tmp_path)
    data = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ModelDamaged, match=file):
        weights.read(recipe, tmp_path)


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("encoder_model.ort", b"conv2.bias", b"conv9.bias", "conv2.bias"),
        ("encoder_model.ort", b"ORTM", b"TFL3", "is not an onnxruntime flatbuffer"),
        ("encoder_model.ort", b"InstanceNormalization", b"InstanceNormalizatiom", "group norm"),
        ("encoder_model.ort", b"/self_attn/q_proj/", b"/self_attn/z_proj/", "q_proj"),
        ("decoder_model_merged.ort", b"else_branch", b"elsX_branch", "else_branch"),
        ("decoder_model_merged.ort", b"embed_tokens.weight", b"embed_tokenz.weight", "embedding"),
    ],
)
def test_a_graph_of_another_make_is_damage(recipe, folder, tmp_path, file, old, new, said):
    copy(folder, tmp_path)
    data = (tmp_path / file).read_bytes()
    assert old in data
    (tmp_path / file).write_bytes(data.replace(old, new))
    with pytest.raises(ModelDamaged, match=said):
        weights.read(recipe, tmp_path)


def save(folder: Path, tensors: weights.Weights) -> None:
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    (folder / "tokenizer.json").write_text("{}")


def copy(folder: Path, to: Path) -> None:
    for path in folder.iterdir():
        shutil.copy(path, to)
