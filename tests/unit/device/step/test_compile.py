"""The decoder's kernels compile for the GPUs that we name, and for what models we have."""

import importlib.util
from pathlib import Path

import msgspec
import numpy as np
import pytest

from edge_runtime.device.cuda.nvrtc import TOLD
from edge_runtime.device.step import compile as room
from edge_runtime.device.step.compile import KERNELS, compiled, definitions
from edge_runtime.device.step.spec import StepSpec
from edge_runtime.errors import DeviceError, MissingExtra

SPEC = StepSpec(
    layers=6, width=288, heads=8, head_dim=40, rotary=32, inner=1152, past=128,
    vocabulary=32768, theta=10000.0, epsilon=1e-5,
    alignment_heads=((2, 1), (3, 0), (3, 1), (3, 2), (3, 5)),
)  # fmt: skip

LARGER = msgspec.structs.replace(SPEC, layers=8, width=416, head_dim=56, inner=1664)


@pytest.mark.parametrize(
    ("spec", "dtype", "capability"),
    [
        (SPEC, np.float16, (8, 7)),
        (SPEC, np.float32, (8, 7)),
        (SPEC, np.float16, (9, 0)),
        (SPEC, np.float32, (9, 0)),
        (SPEC, np.float16, (11, 0)),
        (LARGER, np.float16, (8, 7)),
    ],
)
def test_all_kernels_are_there(
    needs_nvrtc, spec: StepSpec, dtype: type, capability: tuple[int, int]
) -> None:
    code = compiled(spec, np.dtype(dtype), capability)
    assert code.startswith(b"\x7fELF")
    assert [name for name in KERNELS if name.encode() not in code] == []


def test_nvrtc_says_what_is_wrong(
    needs_nvrtc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "step.cu"
    broken.write_text(room._SOURCE.read_text().replace("__global__", "__globule__", 1))
    monkeypatch.setattr(room, "_SOURCE", broken)
    with pytest.raises(DeviceError, match=r"(?s)does not compile step\.cu .*__globule__") as raised:
        compiled(SPEC, np.dtype(np.float16), (8, 7))
    assert len(raised.value.message) < TOLD + 100


def test_without_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="NVRTC is not installed"):
        compiled(SPEC, np.dtype(np.float16), (8, 7))


def test_numbers_are_written_as_the_source_wants_them() -> None:
    found = definitions(SPEC, np.dtype(np.float16))
    assert found["HALF"] == "1"
    assert definitions(SPEC, np.dtype(np.float32))["HALF"] == "0"
    assert (found["ALIGNED"], found["EPSILON"]) == ("5", "1e-05f")
    assert float(found["LOG2_THETA"].removesuffix("f")) == pytest.approx(np.log2(10000))
