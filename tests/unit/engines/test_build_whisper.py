"""Every tile of a made-up Whisper is as the contract says, parses in TensorRT-RTX and builds."""

from __future__ import annotations

import importlib.util

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper

from edge_runtime.device.tensorrt.module import find_tensorrt
from edge_runtime.engines.build.contract import Signature, Tensor, check, signatures
from edge_runtime.engines.build.memory import MB
from edge_runtime.engines.build.profiles import profiles, ranges
from edge_runtime.engines.build.tile import Work, build_tile
from edge_runtime.engines.export import tiles
from edge_runtime.engines.recipe import WhisperRecipe
from edge_runtime.errors import ConfigError


def shorter(whisper: WhisperRecipe, step: int) -> WhisperRecipe:
    dims = msgspec.structs.replace(whisper.architecture, context_step=step)
    return msgspec.structs.replace(whisper, architecture=dims)


@pytest.mark.parametrize(("precision", "step"), [("fp32", 50), ("fp16", 10)])
def test_every_tile_builds(whisper, whisper_arrays, tmp_path, precision: str, step: int) -> None:
    if importlib.util.find_spec("tensorrt_rtx_bindings") is None:
        pytest.skip("TensorRT-RTX is not installed: pip install .[rtx]")
    recipe = shorter(whisper, step)
    work = Work(find_tensorrt("tensorrt_rtx"), 64 * MB)
    dtype = np.float32 if precision == "fp32" else np.float16
    written = tiles(recipe, whisper_arrays, dtype)
    wanted = signatures(recipe, precision)
    assert sorted(written) == sorted(wanted)
    for name, write in written.items():
        path = tmp_path / f"{name}.onnx"
        write().save(path)
        check(name, wanted[name], described(path))
        most = ranges(recipe, 2, 16_000)
        made = build_tile(work, path, wanted[name], profiles(wanted[name], most, "tensorrt_rtx"))
        assert made.nbytes > 1000


def test_no_more_is_built_for_than_the_model_hears(whisper) -> None:
    assert ranges(whisper, 1, 16_000)["T"].most == 50
    assert ranges(shorter(whisper, 10), 1, 16_000)["T"].most == 50
    with pytest.raises(ConfigError, match="hears at most 1 s at once"):
        ranges(whisper, 1, 16_001)


def described(path) -> Signature:
    graph = onnx.load(path).graph

    def tensor(kind: onnx.TypeProto.Tensor) -> Tensor:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
        return Tensor(dtype, tuple(size.dim_param or size.dim_value for size in kind.shape.dim))

    return Signature(
        *({value.name: tensor(value.type.tensor_type) for value in values}
          for values in (graph.input, graph.output))
    )  # fmt: skip
