"""The step's kernels, compiled for one GPU and one model with NVRTC."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime.device.cuda import nvrtc
from edge_runtime.device.kernels import HEADERS
from edge_runtime.device.step.spec import StepSpec

_SOURCE = Path(__file__).with_name("step.cu")
_HEADERS = (*HEADERS, _SOURCE.with_name("many.cuh"))

KERNELS = (
    "embed", "normed", "normed_many", "gated", "gated_many", "mlp_out", "mlp_out_many", "self_mix",
    "self_many", "mix_out", "mix_out_many", "cross", "cross_many", "cross_out", "logits",
    "logits_many", "finish",
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
        "LOG2_THETA": f"{math.log2(spec.theta)!r}f",
        "EPSILON": f"{float(spec.epsilon)!r}f",
    }


def compiled(spec: StepSpec, dtype: np.dtype[Any], capability: tuple[int, int]) -> bytes:
    """The machine code for GPUs of that compute capability; raises as `nvrtc.compiled` does."""
    return nvrtc.compiled(_SOURCE, capability, definitions(spec, dtype), _HEADERS)
