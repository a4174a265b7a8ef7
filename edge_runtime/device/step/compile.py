"""The step's kernels, compiled for one GPU and one model with NVRTC."""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime.device.step.spec import StepSpec
from edge_runtime.errors import DeviceError, MissingExtra

_SOURCE = Path(__file__).with_name("step.cu")

KERNELS = (
    "embed", "normed", "gated", "mlp_out", "self_mix", "self_out", "cross", "cross_out",
    "logits", "finish",
)  # fmt: skip


def definitions(spec: StepSpec, dtype: np.dtype[Any]) -> dict[str, str]:
    """What the source wants defined."""
    return {
        "HALF": str(int(dtype == np.float16)),
        "WIDTH": str(spec.width),
        "HEADS": str(spec.heads),
        "DIM": str(spec.head_dim),
        "ROTARY": str(spec.rotary),
        "INNER": str(spec.inner),
        "PAST": str(spec.past),
        "VOCABULARY": str(spec.vocabulary),
        "ALIGNED": str(len(spec.alignment_heads)),
        "THETA": f"{float(spec.theta)!r}f",
        "EPSILON": f"{float(spec.epsilon)!r}f",
    }


def compiled(spec: StepSpec, dtype: np.dtype[Any], capability: tuple[int, int]) -> bytes:
    """The machine code for GPUs of that compute capability. Needs no GPU.

    Raises `MissingExtra` without NVRTC, `DeviceError` where it refuses.
    """
    if importlib.util.find_spec("cuda.bindings.nvrtc") is None:
        raise MissingExtra("cuda-bindings is not installed", "Run: pip install 'edge-runtime[gpu]'")
    from cuda.bindings import nvrtc

    options = ["--gpu-architecture=sm_{}{}".format(*capability), "--std=c++17"]
    options += [f"-D{name}={value}" for name, value in definitions(spec, dtype).items()]
    create = partial(nvrtc.nvrtcCreateProgram, _SOURCE.read_bytes(), _SOURCE.name.encode())
    try:
        program = _checked("nvrtcCreateProgram", create(0, [], []))
    except RuntimeError as error:  # cuda-bindings' own, where the library is absent
        raise MissingExtra(
            f"NVRTC is not there: {error}",
            "Install the CUDA toolkit's NVRTC, or: pip install nvidia-cuda-nvrtc",
        ) from error
    try:
        (status,) = nvrtc.nvrtcCompileProgram(
            program, len(options), [option.encode() for option in options]
        )
        if status:
            raise DeviceError(f"NVRTC does not compile {_SOURCE.name}: {_log(nvrtc, program)}")
        code = bytes(_checked("nvrtcGetCUBINSize", nvrtc.nvrtcGetCUBINSize(program)))
        _checked("nvrtcGetCUBIN", nvrtc.nvrtcGetCUBIN(program, code))
        return code
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _log(nvrtc: Any, program: Any) -> str:
    text = bytes(_checked("nvrtcGetProgramLogSize", nvrtc.nvrtcGetProgramLogSize(program)))
    nvrtc.nvrtcGetProgramLog(program, text)
    return text.rstrip(b"\0").decode(errors="replace").strip()


def _checked(call: str, result: tuple[Any, ...]) -> Any:
    if result[0]:
        raise DeviceError(f"{call} says {result[0].name}", "Please report this.")
    return result[1] if len(result) == 2 else None
