"""The encoder's kernels compile for the boards and GPUs that we name; no GPU is needed."""

from __future__ import annotations

import msgspec
import pytest

from edge_runtime.device.encode.compile import KERNELS, compiled, definitions
from edge_runtime.device.encode.spec import EncodeSpec

SPEC = EncodeSpec(
    layers=6, width=288, heads=8, head_dim=40, rotary=32, inner=1152, channels=(288, 576, 288),
    kernels=(127, 7, 3), strides=(64, 3, 2), memories=6, theta=10000.0, epsilon=1e-5,
)  # fmt: skip
LARGER = msgspec.structs.replace(
    SPEC, width=416, head_dim=56, inner=1664, channels=(416, 832, 416), layers=8, memories=8
)


@pytest.mark.parametrize(
    ("spec", "capability"),
    [(SPEC, (8, 7)), (SPEC, (9, 0)), (SPEC, (11, 0)), (LARGER, (8, 7)), (LARGER, (9, 0))],
)
def test_every_kernel_is_in_the_code(
    needs_nvrtc: None, spec: EncodeSpec, capability: tuple[int, int]
) -> None:
    code = compiled(spec, capability)
    assert code[:4] == b"\x7fELF"
    for name in KERNELS:
        assert f".text.{name}".encode() in code


def test_what_is_defined() -> None:
    defined = definitions(SPEC)
    assert defined["MIDDLE"] == "576"
    assert defined["KERNEL_2"] == "7"
    assert defined["STRIDE_1"] == "64"
    assert defined["EPSILON"] == "1e-05f"
    assert defined["LOG2_THETA"].startswith("13.28771")
