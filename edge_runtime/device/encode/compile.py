"""The encoder's kernels, compiled for one GPU and one model with NVRTC."""

from __future__ import annotations

import math
from pathlib import Path

from edge_runtime.device.cuda import nvrtc
from edge_runtime.device.encode.spec import EncodeSpec
from edge_runtime.device.kernels import HEADERS

_SOURCE = Path(__file__).with_name("encode.cu")

KERNELS = (
    "hear", "listen", "gather", "project", "attend", "mix_out", "mlp_in", "mlp_out", "remember",
)  # fmt: skip


def definitions(spec: EncodeSpec) -> dict[str, str]:
    """What the source wants defined."""
    numbered = {
        f"{name}_{place}": str(value)
        for name, values in (("KERNEL", spec.kernels), ("STRIDE", spec.strides))
        for place, value in enumerate(values, 1)
    }
    return {
        "HALF": "1",
        "WIDTH": str(spec.width),
        "HEADS": str(spec.heads),
        "DIM": str(spec.head_dim),
        "ROTARY": str(spec.rotary),
        "INNER": str(spec.inner),
        "MIDDLE": str(spec.channels[1]),
        "LOG2_THETA": f"{math.log2(spec.theta)!r}f",
        "EPSILON": f"{float(spec.epsilon)!r}f",
        **numbered,
    }


def compiled(spec: EncodeSpec, capability: tuple[int, int]) -> bytes:
    """The machine code for GPUs of that compute capability; raises as `nvrtc.compiled` does."""
    return nvrtc.compiled(_SOURCE, capability, definitions(spec), HEADERS)
