"""The other form of Whisper's weights: what is read is what was written, and damage is named."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.engines.weights import ctranslate2
from edge_runtime.errors import ModelDamaged, ModelMissing

Tensors = dict[str, np.ndarray]
_CODES = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}


def string(text: str) -> bytes:
    raw = text.encode() + b"\0"
    return struct.pack("<H", len(raw)) + raw


def written(tensors: Tensors, aliases: Sequence[tuple[str, str]] = (), version: int = 6) -> bytes:
    """A file of that form."""
    parts = [struct.pack("<I", version), string("WhisperSpec"), struct.pack("<I", 3)]
    parts.append(struct.pack("<I", len(tensors)))
    for name, tensor in tensors.items():
        data = tensor.tobytes()
        shape = struct.pack(f"<B{tensor.ndim}I", tensor.ndim, *tensor.shape)
        kind = struct.pack("<BI", _CODES[tensor.dtype.name], len(data))
        parts += [string(name), shape, kind, data]
    parts.append(struct.pack("<I", len(aliases)))
    parts += [string(text) for alias in aliases for text in alias]
    return b"".join(parts)


def packed(arrays: Tensors, layers: tuple[int, int]) -> Tensors:
    """Arrays under Hugging Face's names as the other form has them, in float16."""
    made = {
        "encoder/num_heads": np.array(2, np.int16),
        "decoder/embeddings/weight": arrays["model.decoder.embed_tokens.weight"],
    }
    for number in (1, 2):
        for kind in ("weight", "bias"):
            made[f"encoder/conv{number}/{kind}"] = arrays[f"model.encoder.conv{number}.{kind}"]
    for half, count in zip(("encoder", "decoder"), layers, strict=True):
        places = arrays[f"model.{half}.embed_positions.weight"]
        made[f"{half}/position_encodings/encodings"] = places
        made |= _norm(arrays, f"{half}/layer_norm", f"model.{half}.layer_norm")
        for layer in range(count):
            made |= _layer(arrays, half, layer)
    return {
        name: tensor.astype(np.float16) if tensor.dtype == np.float32 else tensor
        for name, tensor in made.items()
    }


def _layer(arrays: Tensors, half: str, layer: int) -> Tensors:
    ours, theirs = f"model.{half}.layers.{layer}", f"{half}/layer_{layer}"
    made = _linear(arrays, f"{theirs}/self_attention/linear_0", f"{ours}.self_attn", "q k v")
    made |= _linear(arrays, f"{theirs}/self_attention/linear_1", f"{ours}.self_attn", "out")
    made |= _norm(arrays, f"{theirs}/self_attention/layer_norm", f"{ours}.self_attn_layer_norm")
    made |= _norm(arrays, f"{theirs}/ffn/layer_norm", f"{ours}.final_layer_norm")
    for number in (0, 1):
        for kind in ("weight", "bias"):
            made[f"{theirs}/ffn/linear_{number}/{kind}"] = arrays[f"{ours}.fc{number + 1}.{kind}"]
    if half == "decoder":
        for number, parts in enumerate(("q", "k v", "out")):
            name = f"{theirs}/attention/linear_{number}"
            made |= _linear(arrays, name, f"{ours}.encoder_attn", parts)
        norm = f"{ours}.encoder_attn_layer_norm"
        made |= _norm(arrays, f"{theirs}/attention/layer_norm", norm)
    return made


def _linear(arrays: Tensors, name: str, stem: str, parts: str) -> Tensors:
    weights = [arrays[f"{stem}.{part}_proj.weight"] for part in parts.split()]
    none = np.zeros(len(weights[0]), np.float32)
    biases = [arrays.get(f"{stem}.{part}_proj.bias", none) for part in parts.split()]
    return {f"{name}/weight": np.concatenate(weights), f"{name}/bias": np.concatenate(biases)}


def _norm(arrays: Tensors, name: str, stem: str) -> Tensors:
    return {f"{name}/gamma": arrays[f"{stem}.weight"], f"{name}/beta": arrays[f"{stem}.bias"]}


@pytest.fixture(scope="module")
def content(whisper, whisper_arrays) -> bytes:
    dims = whisper.architecture
    tensors = packed(whisper_arrays, (dims.encoder_layers, dims.decoder_layers))
    return written(tensors, [("decoder/projection/weight", "decoder/embeddings/weight")])


@pytest.fixture
def file(tmp_path) -> Callable[..., list[Path]]:
    def made(*parts: bytes) -> list[Path]:
        paths = [tmp_path / f"model.bin.part{number}" for number in range(len(parts))]
        for path, part in zip(paths, parts, strict=True):
            path.write_bytes(part)
        return paths

    return made


def test_every_tensor_is_read_whole_or_in_parts(file, content, whisper_arrays) -> None:
    for cuts in ((), (7,), (len(content) // 2,), (1000, 1001)):
        edges = [0, *cuts, len(content)]
        parts = [content[a:b] for a, b in itertools.pairwise(edges)]
        found = ctranslate2.read(file(*parts))
        assert found.keys() == whisper_arrays.keys()
        for name, array in whisper_arrays.items():
            np.testing.assert_array_equal(found[name], array.astype(np.float16), err_msg=name)
            assert found[name].dtype == np.float32


@pytest.mark.parametrize("share", [0.0001, 0.01, 0.3, 0.7, 0.999])
def test_a_file_that_is_cut_off_says_so(file, content, share: float) -> None:
    with pytest.raises(ModelDamaged, match=r"is cut off at byte|goes on after") as damage:
        ctranslate2.read(file(content[: int(len(content) * share) + 1]))
    assert "pull MODEL --again" in damage.value.fix


def test_damage_is_named(file, content) -> None:
    one = {"encoder/conv1/weight": np.ones((2, 2), np.float32)}
    whole = written(one)
    at = whole.index(b"encoder/conv1/weight\0") + 21
    for changed, said in [
        (written(one, version=5), "version 5, not 6"),
        (whole[: at + 9] + b"\x09" + whole[at + 10 :], "unknown type 9"),
        (whole[: at + 1] + b"\x03" + whole[at + 2 :], "16 bytes are not float32"),
        (written({"encoder/conv9/weight": one["encoder/conv1/weight"]}), "unknown tensor encoder"),
        (written({"encoder/layer_0/ffn/linear_0/scale": np.ones(3, np.float32)}), "unknown tensor"),
        (written(one, [("a", "b")]), "a stands for b"),
        (whole + b"more", "goes on after its end for 4 bytes"),
        (b"", "is empty"),
    ]:
        with pytest.raises(ModelDamaged, match=said):
            ctranslate2.read(file(changed))
    with pytest.raises(ModelMissing, match="does not exist"):
        ctranslate2.read([file(content)[0].with_name("model.bin")])
