"""NVRTC compiles our kernels for GPUs that this machine does not have, and says what it refuses."""

import importlib.util
from pathlib import Path

import pytest

from edge_runtime.device.cuda.gather import KERNEL, SOURCE
from edge_runtime.device.cuda.nvrtc import compiled
from edge_runtime.errors import DeviceError, MissingExtra


@pytest.mark.parametrize("capability", [(8, 7), (9, 0)])
def test_the_gather_kernel(needs_nvrtc, capability: tuple[int, int]) -> None:
    code = compiled(SOURCE, capability, {})
    assert code.startswith(b"\x7fELF")
    assert KERNEL.encode() in code


def test_definitions_reach_the_source(needs_nvrtc, tmp_path: Path) -> None:
    source = tmp_path / "odd.cu"
    source.write_text(
        "#if SIZE != 3\n#error what is SIZE?\n#endif\n"
        'extern "C" __global__ void odd(float *x) { x[0] = SIZE; }'
    )
    assert b"odd" in compiled(source, (8, 7), {"SIZE": "3"})
    with pytest.raises(DeviceError, match=r"(?s)does not compile odd\.cu .*what is SIZE\?"):
        compiled(source, (8, 7), {"SIZE": "4"})


def test_a_gpu_that_it_does_not_know(needs_nvrtc) -> None:
    with pytest.raises(DeviceError, match=r"does not compile gather\.cu .*INVALID_OPTION"):
        compiled(SOURCE, (1, 1), {})


def test_no_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    for missing in ("cuda", "cuda.bindings.nvrtc"):
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda name, missing=missing: None if name == missing else (name == "cuda" or found),
        )
        with pytest.raises(MissingExtra, match=r"edge-runtime\[gpu\]"):
            compiled(SOURCE, (8, 7), {})


def test_no_library(needs_nvrtc, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import nvrtc

    def absent(*given: object) -> None:
        raise RuntimeError("libnvrtc.so.13 was not found")

    monkeypatch.setattr(nvrtc, "nvrtcCreateProgram", absent)
    with pytest.raises(MissingExtra, match=r"libnvrtc.so.13 was not found.*nvidia-cuda-nvrtc"):
        compiled(SOURCE, (8, 7), {})


def test_a_failure_of_its_own(needs_nvrtc, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import nvrtc

    status = nvrtc.nvrtcResult.NVRTC_ERROR_OUT_OF_MEMORY
    monkeypatch.setattr(nvrtc, "nvrtcCreateProgram", lambda *given: (status, None))
    with pytest.raises(DeviceError, match="nvrtcCreateProgram says NVRTC_ERROR_OUT_OF_MEMORY"):
        compiled(SOURCE, (8, 7), {})
