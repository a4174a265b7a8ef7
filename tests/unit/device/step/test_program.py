"""The decoder in kernels of our own: what is bound and refused, which kernels are launched how."""

from __future__ import annotations

import gc
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.device.cuda import open_driver
from edge_runtime.device.cuda.device import CudaDevice
from edge_runtime.device.cuda.memory import CudaBuffer
from edge_runtime.device.kernels import packed
from edge_runtime.device.kernels.archive import save
from edge_runtime.device.onnx import HostStream
from edge_runtime.device.step import StepProgram, StepSpec
from edge_runtime.device.step import program as room
from edge_runtime.device.step.compile import KERNELS
from edge_runtime.device.step.spec import FILE, expected
from edge_runtime.device.tensorrt import TensorRT, TensorRTDevice
from edge_runtime.errors import DeviceError, DeviceLost, MissingExtra, ModelDamaged, ModelMissing
from tests.fakes import tensorrt
from tests.fakes.cuda_names import CUresult
from tests.fakes.gpu import FakeGpu

SPEC = StepSpec(
    layers=2, width=64, heads=2, head_dim=40, rotary=32, inner=96, past=96, vocabulary=256,
    theta=10000.0, epsilon=1e-5, alignment_heads=((1, 0), (1, 1)),
)  # fmt: skip
FRAMES = 130
BLOCKS = 3
"""Of 64 frames."""


def weights(spec: StepSpec = SPEC, dtype: Any = np.float16) -> dict[str, Any]:
    random = np.random.default_rng(1)
    return {
        name: random.normal(size=shape).astype(np.float32 if "norm" in name else dtype)
        for name, shape in expected(spec).items()
    }


@pytest.fixture
def gpu(tensorrt_gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    for name in KERNELS:
        tensorrt_gpu.kernels[name] = lambda *given: None
    monkeypatch.setattr(room, "compiled", lambda spec, dtype, capability: b"code")
    return tensorrt_gpu


@pytest.fixture
def device(cuda_device: CudaDevice) -> CudaDevice:
    return cuda_device


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save(tmp_path / FILE, SPEC, weights())
    return tmp_path / FILE


def bound(
    program: StepProgram, device: CudaDevice, rows: int = 1, queries: int = 1
) -> dict[str, CudaBuffer]:
    """A buffer for every tensor."""
    free = {"tokens": (rows, queries), "align": (rows, queries, FRAMES)}
    free |= dict.fromkeys(("next_token", "frame", "logprob", "margin"), (rows, queries))
    made = {}
    for name, spec in {**program.inputs, **program.outputs}.items():
        shape = [rows if size is None else size for size in spec.shape]
        if name.startswith("memory_") and len(shape) == 4:
            shape[2] = FRAMES
        made[name] = device.alloc(free.get(name, tuple(shape)), spec.dtype)
    return made


def test_weights_are_on_the_device(device: CudaDevice, path: Path) -> None:
    program = StepProgram(device, path)
    assert program.dtype == np.float16
    stream, stored = device.stream(), weights()
    for name, array in stored.items():
        at = program.weight(name)
        assert at % 256 == 0
        target = device.alloc((array.nbytes,), np.uint8, "pinned")
        device.driver.copy(target.pointer, at, array.nbytes, stream.handle)
        stream.synchronize()
        wanted = packed(array) if array.ndim == 2 else array
        assert target.host.tobytes() == wanted.tobytes(), name


@pytest.mark.parametrize("rows", [1, 3])
def test_a_step_is_its_kernels_in_order(
    device: CudaDevice, gpu: FakeGpu, path: Path, rows: int
) -> None:
    program, stream = StepProgram(device, path), device.stream()
    buffers = bound(program, device, rows)
    call = program.bind(buffers, stream)
    assert gpu.launches == []
    call()
    stream.synchronize()
    layer = ["normed", "self_mix", "mix_out", "normed", "cross", "cross_out", "gated", "mlp_out"]
    assert [each.name for each in gpu.launches] == ["embed", *layer, *layer, "logits", "finish"]
    # 16 columns a block, or a head, or 64 frames, or 128 words; and the rows.
    grids = {
        "embed": (rows, 1, 1), "self_mix": (2, rows, 1), "mix_out": (4, rows, 1),
        "cross": (2, BLOCKS, rows), "cross_out": (4, rows, 1), "gated": (6, rows, 1),
        "mlp_out": (4, rows, 1), "logits": (2, rows, 1), "finish": (rows, 1, 1),
    }  # fmt: skip
    threads = {"self_mix": 96, "cross": 128}
    for each in gpu.launches:
        if each.name != "normed":
            assert each.grid == grids[each.name], each.name
        assert each.block == (threads.get(each.name, 256), 1, 1)
        assert each.shared == 0
    normed = [each.grid for each in gpu.launches if each.name == "normed"]
    assert normed == [(15, rows, 1), (5, rows, 1)] * 2
    _check_arguments(gpu, program, buffers)


def test_a_longer_pass_takes_eight_lines_a_block(
    device: CudaDevice, gpu: FakeGpu, path: Path
) -> None:
    program, stream = StepProgram(device, path), device.stream()
    buffers = bound(program, device, rows=2, queries=16)
    program.bind(buffers, stream)()
    stream.synchronize()
    layer = [
        "normed_many", "self_many", "mix_out_many", "normed_many", "cross_many", "mix_out_many",
        "gated_many", "mlp_out_many",
    ]  # fmt: skip
    names = [each.name for each in gpu.launches]
    assert names == ["embed", *layer, *layer, "logits_many", "finish"]
    grids = {each.name: each.grid for each in gpu.launches}
    assert grids == {
        "embed": (32, 1, 1), "normed_many": (5, 4, 1), "self_many": (2, 1, 2),
        "mix_out_many": (4, 4, 1), "cross_many": (2, 1, 2), "gated_many": (6, 4, 1),
        "mlp_out_many": (4, 4, 1),
        "logits_many": (2, 1, 1), "finish": (32, 1, 1),
    }  # fmt: skip
    _check_arguments(gpu, program, buffers)


def _check_arguments(gpu: FakeGpu, program: StepProgram, buffers: dict[str, CudaBuffer]) -> None:
    """Addresses are of live memory; each layer gets its own weights, caches and heads."""
    pointers = {buffer.pointer: name for name, buffer in buffers.items()}
    pointers |= {program.weight(name): name for name in expected(SPEC)}
    begins = {program.weight(f"{layer}.qkv"): layer for layer in range(SPEC.layers)}
    layer, given = -1, []
    for each in gpu.launches:
        layer = next((begins[value] for value in each.values if value in begins), layer)
        for value in each.values:
            # Memory may lie anywhere; what is no buffer's beginning is known by its size.
            if value in pointers or value > 1 << 32:
                assert gpu._lies(value, 4) is not None
                name = pointers.get(value, "")
                given.append(name)
                where = name.split(".")[0] if "." in name else name.rsplit("_", 1)[-1]
                assert not where.isdigit() or int(where) == layer, (each.name, name)
    assert layer == SPEC.layers - 1
    assert set(pointers.values()) <= set(given)
    crossed = [each.values for each in gpu.launches if each.name.startswith("cross")]
    slots = [SPEC.slots(0), SPEC.slots(1)]
    assert slots == [0xFF, 0x10]
    for place, values in enumerate(crossed):
        assert slots[place * 2 // len(crossed)] in values


@pytest.mark.parametrize(
    ("capability", "version", "early"),
    [((9, 0), 12060, True), ((11, 0), 13000, True), ((8, 7), 13000, False), ((9, 0), 12020, False)],
)
def test_kernels_begin_early_where_the_gpu_lets_them(
    gpu: FakeGpu, path: Path, capability: tuple[int, int], version: int, early: bool
) -> None:
    gpu.capability, gpu.version = capability, version
    device = CudaDevice(open_driver(0, "cuda-bindings"))
    program, stream = StepProgram(device, path), device.stream()
    program.bind(bound(program, device), stream)()
    stream.synchronize()
    # The first follows a copy, and everything that was enqueued before.
    assert [each.early for each in gpu.launches] == [False] + [early] * (len(gpu.launches) - 1)


def test_replayed_as_a_graph(device: CudaDevice, gpu: FakeGpu, path: Path) -> None:
    program, stream = StepProgram(device, path), device.stream()
    graph = device.capture(program.bind(bound(program, device), stream), stream)
    assert graph.nodes == {"kernel": 3 + 8 * SPEC.layers}
    gpu.launches.clear()
    graph.replay()
    stream.synchronize()
    assert stream.counters.copied == {}


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "said"),
    [
        ("tokens", None, None, "step: 'tokens' is not bound"),
        ("new_v_1", None, None, "step: 'new_v_1' is not bound"),
        ("table", (256, 64), np.float32, r"'table' wants float16 of \(256, 64\), got float32"),
        ("past_k_0", (1, 2, 32, 40), np.float16, r"'past_k_0' wants .* got .*\(1, 2, 32, 40\)"),
        ("align", (1, FRAMES), np.float32, "'align' wants float32"),
    ],
)
def test_what_does_not_fit_is_refused(
    device: CudaDevice, path: Path, name: str, shape: Any, dtype: Any, said: str
) -> None:
    program = StepProgram(device, path)
    buffers = bound(program, device)
    del buffers[name]
    if shape:
        buffers[name] = device.alloc(shape, dtype)
    with pytest.raises(DeviceError, match=said):
        program.bind(buffers, device.stream())


def test_there_are_no_kernels_for_every_size(device: CudaDevice, path: Path) -> None:
    program = StepProgram(device, path)
    with pytest.raises(DeviceError, match=r"no kernels for 12 queries.*multiple of 8"):
        program.bind(bound(program, device, queries=12), device.stream())
    with pytest.raises(DeviceError, match="a HostStream is not a stream of a GPU"):
        program.bind(bound(program, device), HostStream())


def test_a_launch_that_fails_is_told(device: CudaDevice, gpu: FakeGpu, path: Path) -> None:
    program, stream = StepProgram(device, path), device.stream()
    call = program.bind(bound(program, device), stream)
    gpu.fail("cuLaunchKernelEx", CUresult.CUDA_ERROR_INVALID_VALUE, 3)
    with pytest.raises(DeviceError, match="cuLaunchKernelEx says CUDA_ERROR_INVALID_VALUE"):
        call()


@pytest.mark.parametrize(
    ("field", "value"), [("width", 40), ("vocabulary", 250), ("heads", 9), ("alignment_heads", ())]
)
def test_a_decoder_that_kernels_are_not_made_for(
    device: CudaDevice, tmp_path: Path, field: str, value: Any
) -> None:
    spec = StepSpec(
        **{**{name: getattr(SPEC, name) for name in SPEC.__struct_fields__}, field: value}
    )
    save(tmp_path / FILE, spec, weights(spec))
    with pytest.raises(DeviceError, match=f"no kernels for a decoder .*{field}="):
        StepProgram(device, tmp_path / FILE)


def test_files_that_are_no_good(device: CudaDevice, tmp_path: Path) -> None:
    file = tmp_path / FILE
    with pytest.raises(ModelMissing, match="does not exist"):
        StepProgram(device, file)
    file.write_bytes(b"nothing of the kind")
    with pytest.raises(ModelDamaged, match="--again"):
        StepProgram(device, file)
    fewer = weights()
    del fewer["1.fc2"]
    for stored in (fewer, {}, {**weights(), "norm": np.ones(8, np.float32)}):
        save(file, SPEC, stored)
        with pytest.raises(ModelDamaged, match=r"is not \("):
            StepProgram(device, file)
    assert device.budget.by_kind["device"] == 0


def test_its_code_is_unloaded_with_the_device(gpu: FakeGpu, path: Path) -> None:
    device = TensorRTDevice(
        open_driver(0, "cuda-bindings"), TensorRT("tensorrt", "10.3.0", tensorrt)
    )
    program = device.decoder(path.parent)
    assert isinstance(program, StepProgram)
    assert len(gpu.modules) == 1
    del program
    device.close()
    gc.collect()
    gpu.check_released()


@pytest.mark.parametrize("error", [MissingExtra, DeviceError])
def test_a_device_does_without(
    gpu: FakeGpu, path: Path, caplog, monkeypatch: pytest.MonkeyPatch, error: Any
) -> None:
    def fails(*given: object) -> bytes:
        raise error("NVRTC does not do it", "Install another.")

    library = TensorRT("tensorrt", "10.3.0", tensorrt)
    device = TensorRTDevice(open_driver(0, "cuda-bindings"), library)
    assert device.decoder(path.parent / "elsewhere") is None
    monkeypatch.setattr(room, "compiled", fails)
    with caplog.at_level(logging.WARNING):
        assert device.decoder(path.parent) is None
    assert "NVRTC does not do it. Install another." in caplog.text
    plain = TensorRTDevice(open_driver(0, "cuda-bindings"), library, kernels=False)
    assert plain.decoder(path.parent) is None
    gpu.lose()
    monkeypatch.setattr(room, "compiled", lambda *given: b"code")
    with pytest.raises(DeviceLost):
        device.decoder(path.parent)
