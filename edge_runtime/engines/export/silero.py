"""Silero's voice detector for a batch of streams: some frames of each, and each its own state.

The published graph hears one stream; ours carries a batch axis through the same arithmetic. What
hears a frame by itself takes all frames of all streams at once, in any order. It is for a CPU,
where the detector runs whatever the device: TensorRT-RTX 1.7 fails at a cell that hears rows of
different lengths.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.recipe import SileroArchitecture, SileroRecipe
from edge_runtime.errors import ModelDamaged, ModelMissing

Weights = Mapping[str, NDArray[np.float32]]

_PUBLISHED = "silero_vad_16k_sequence.onnx"
_WINDOW, _STEP, _BINS = 256, 128, 129
_CHANNELS = (_BINS, 128, 64, 64, 128)
_STRIDES = (1, 2, 2, 1)


def export(recipe: SileroRecipe, weights_dir: Path, out_dir: Path) -> None:
    """Write `vad.onnx` to `out_dir`: always float32, it is tiny and its output is compared.

    Raises `ModelMissing`, or `ModelDamaged` naming the tensor.
    """
    weights = read(weights_dir / _PUBLISHED, recipe.architecture)
    detector(recipe.architecture, weights).save(out_dir / "vad.onnx")


def read(path: Path, shape: SileroArchitecture) -> Weights:
    """The published graph's weights, float32, under its own names; `lstm.{w,r,b}` are (·, 4h).

    Raises `ModelMissing`, or `ModelDamaged` naming the tensor.
    """
    import onnx
    from onnx import numpy_helper

    if not path.is_file():
        raise ModelMissing(f"{path} does not exist", "Run: edge-runtime pull silero-vad")
    try:
        graph = onnx.load(str(path)).graph
        found = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    except Exception as error:  # protobuf's and numpy's errors share no base but Exception
        raise _damaged(path, f"cannot be read: {error}") from error
    cell = next((node for node in graph.node if node.op_type == "LSTM"), None)
    if cell is None:
        raise _damaged(path, "has no LSTM")
    # Anonymous: the cell's inputs say which is which.
    for name, source in zip("wrb", list(cell.input)[1:4], strict=True):
        if source in found:
            found[f"lstm.{name}"] = found.pop(source)
    for name, expected in _shapes(shape).items():
        if name not in found:
            raise _damaged(path, f"has no tensor {name}")
        if found[name].shape != expected or found[name].dtype != np.float32:
            raise _damaged(path, f"{name} is {found[name].dtype} of {found[name].shape}")
    unknown = found.keys() - _shapes(shape).keys()
    if unknown:
        raise _damaged(path, f"holds an unknown tensor {min(unknown)}")
    return found


def detector(shape: SileroArchitecture, weights: Weights) -> GraphWriter:
    """The graph, float32; stream b has `frames[b]` of the N rows of `audio`, at most T.

    `audio` (N, context + frame), `rows` (T, B) int64, which row is a stream's frame of that number,
    any behind its last, `frames` (B,) int32, `h` and `c` (B, hidden) →
    `probability` (T, B), `h_next` and `c_next` (B, hidden).
    """
    g = GraphWriter("vad")
    hidden = shape.hidden
    audio = g.input("audio", np.float32, ["N", shape.context + shape.frame])
    rows = g.input("rows", np.int64, ["T", "B"])
    frames = g.input("frames", np.int32, ["B"])
    h = g.input("h", np.float32, ["B", hidden])
    c = g.input("c", np.float32, ["B", hidden])

    x = _magnitude(g, audio, weights, shape.context)
    for index, stride in enumerate(_STRIDES):
        stem = f"encoder.{index}"
        kernel = g.weight(weights[f"{stem}.weight"], f"{stem}.weight")
        bias = g.weight(weights[f"{stem}.bias"], f"{stem}.bias")
        x = g.op("Relu", g.op("Conv", x, kernel, bias, strides=[stride], pads=[1, 1]))
    # The strides leave one frame of the four.
    x = g.op("Gather", g.reshape(x, -1, _CHANNELS[-1]), rows)

    gates = [g.weight(weights[f"lstm.{name}"], f"lstm.{name}") for name in "wrb"]
    states = [g.unsqueeze(each, 0) for each in (h, c)]
    heard, h_next, c_next = g.split_op("LSTM", 3, x, *gates, frames, *states, hidden_size=hidden)
    kernel = g.weight(weights["output.weight"].reshape(hidden, 1), "output.weight")
    bias = g.weight(weights["output.bias"], "output.bias")
    heard = g.op("Squeeze", heard, g.ints(1))
    logit = g.add(g.matmul(g.op("Relu", heard), kernel), bias)
    spoken = g.op("Squeeze", g.op("Sigmoid", logit), g.ints(2))
    g.output(spoken, "probability", np.float32, ["T", "B"])
    for name, each in (("h_next", h_next), ("c_next", c_next)):
        g.output(g.op("Squeeze", each, g.ints(0)), name, np.float32, ["B", hidden])
    return g


def _magnitude(g: GraphWriter, audio: str, weights: Weights, padding: int) -> str:
    """Spectrum of four windows, (B, bins, 4): a convolution with sines, reflected at the end."""
    padded = g.op("Pad", audio, g.ints(0, 0, 0, padding), mode="reflect")
    basis = g.weight(weights["stft.forward_basis_buffer"], "stft.basis")
    parts = g.op("Conv", g.unsqueeze(padded, 1), basis, strides=[_STEP])
    real, imaginary = g.split(parts, [_BINS, _BINS], axis=1)
    return g.op("Sqrt", g.add(g.mul(real, real), g.mul(imaginary, imaginary)))


def _shapes(shape: SileroArchitecture) -> dict[str, tuple[int, ...]]:
    hidden = shape.hidden
    shapes: dict[str, tuple[int, ...]] = {
        "stft.forward_basis_buffer": (2 * _BINS, 1, _WINDOW),
        "output.weight": (1, hidden, 1),
        "output.bias": (1,),
        "lstm.w": (1, 4 * hidden, _CHANNELS[-1]),
        "lstm.r": (1, 4 * hidden, hidden),
        "lstm.b": (1, 8 * hidden),
    }
    for index, (before, after) in enumerate(pairwise(_CHANNELS)):
        shapes[f"encoder.{index}.weight"] = (after, before, 3)
        shapes[f"encoder.{index}.bias"] = (after,)
    return shapes


def _damaged(path: Path, what: str) -> ModelDamaged:
    return ModelDamaged(f"{path}: {what}", "Run: edge-runtime pull silero-vad --again")
