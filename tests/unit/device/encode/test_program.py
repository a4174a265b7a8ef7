"""The encoder in kernels of our own: what is bound and refused, which kernels are launched how."""

from __future__ import annotations

import gc
import logging
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from edge_runtime.device.cuda import open_driver
from edge_runtime.device.cuda.device import CudaDevice
from edge_runtime.device.cuda.memory import CudaBuffer
from edge_runtime.device.encode import EncodeProgram, EncodeSpec
from edge_runtime.device.encode import program as room
from edge_runtime.device.encode.compile import KERNELS
from edge_runtime.device.encode.program import in_octets, memories
from edge_runtime.device.encode.spec import FILE, expected
from edge_runtime.device.kernels import packed
from edge_runtime.device.kernels.archive import save
from edge_runtime.device.onnx import HostStream
from edge_runtime.device.tensorrt import TensorRT, TensorRTDevice
from edge_runtime.errors import DeviceError, ModelDamaged, ModelMissing
from tests.fakes import tensorrt
from tests.fakes.gpu import FakeGpu

SPEC = EncodeSpec(
    layers=2, width=64, heads=4, head_dim=16, rotary=8, inner=96, channels=(64, 128, 64),
    kernels=(127, 7, 3), strides=(64, 3, 2), memories=3, theta=10000.0, epsilon=1e-5,
)  # fmt: skip
SAMPLES = 32_000
HEARD, LISTENED, FRAMES = 499, 165, 82


def weights(spec: EncodeSpec = SPEC) -> dict[str, Any]:
    random = np.random.default_rng(1)
    return {
        name: random.normal(size=shape).astype(np.float16 if len(shape) == 2 else np.float32)
        for name, shape in expected(spec).items()
    }


@pytest.fixture
def gpu(tensorrt_gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    for name in KERNELS:
        tensorrt_gpu.kernels[name] = lambda *given: None
    monkeypatch.setattr(room, "compiled", lambda spec, capability: b"code")
    return tensorrt_gpu


@pytest.fixture
def device(cuda_device: CudaDevice) -> CudaDevice:
    return cuda_device


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save(tmp_path / FILE, SPEC, weights())
    return tmp_path / FILE


def bound(device: CudaDevice, rows: int = 1, gap: int = 64) -> dict[str, CudaBuffer]:
    """A buffer for every tensor; those of memory lie in one, `gap` elements between them."""
    size = (rows, SPEC.heads, FRAMES, SPEC.head_dim)
    each = int(np.prod(size)) + gap
    memory = device.alloc((6 * each,), np.float16)
    made = {
        "audio": device.alloc((rows, SAMPLES), np.float32),
        "length": device.alloc((rows,), np.int64),
        "memory_length": device.alloc((rows,), np.int64),
    }
    for place, name in enumerate(memories(SPEC)):
        made[name] = memory.view(size, place * each)
    return made


def test_weights_lie_as_threads_read_them(device: CudaDevice, path: Path) -> None:
    program, stream = EncodeProgram(device, path), device.stream()
    for name, array in weights().items():
        at = program.weight(name)
        assert at % 256 == 0
        target = device.alloc((array.nbytes,), np.uint8, "pinned")
        device.driver.copy(target.pointer, at, array.nbytes, stream.handle)
        stream.synchronize()
        wanted = packed(in_octets(array)) if array.ndim == 2 else array
        assert target.host.tobytes() == wanted.tobytes(), name


def test_the_rows_of_a_chunk_follow_the_threads() -> None:
    rows = in_octets(np.arange(64)[:, None])[:, 0].tolist()
    # Of a thread's eight neighbours: two and two for the first product, then for the second.
    assert rows[:16] == [0, 1, 8, 9, 16, 17, 24, 25, 2, 3, 10, 11, 18, 19, 26, 27]
    assert rows[16:32] == [4, 5, 12, 13, 20, 21, 28, 29, 6, 7, 14, 15, 22, 23, 30, 31]
    assert rows[32:] == [32 + row for row in rows[:32]]


@pytest.mark.parametrize("rows", [1, 3])
def test_a_call_is_its_kernels_in_order(
    device: CudaDevice, gpu: FakeGpu, path: Path, rows: int
) -> None:
    program, stream = EncodeProgram(device, path), device.stream()
    buffers = bound(device, rows)
    call = program.bind(buffers, stream)
    assert gpu.launches == []
    call()
    stream.synchronize()
    layer = ["project", "attend", "mix_out", "mlp_in", "mlp_out"]
    names = [each.name for each in gpu.launches]
    assert names == ["hear", "listen", "gather", *layer, *layer, "remember"]
    # 32 frames a block, 64 in the second convolution, 16 in attention; then columns or heads.
    grids = {
        "hear": (2, 16, rows), "listen": (2, 3, rows), "gather": (2, 3, rows),
        "project": (6, 3, rows), "attend": (4, 6, rows), "mix_out": (2, 3, rows),
        "mlp_in": (1, 3, rows), "mlp_out": (2, 3, rows), "remember": (6, 3, rows),
    }  # fmt: skip
    threads = {"hear": 64, "project": 128, "mlp_in": 384, "remember": 128}
    for each in gpu.launches:
        assert each.grid == grids[each.name], each.name
        assert each.block == (threads.get(each.name, 256), 1, 1), each.name
    _check_arguments(gpu, program, buffers)


def _check_arguments(gpu: FakeGpu, program: EncodeProgram, buffers: dict[str, CudaBuffer]) -> None:
    """Addresses are of live memory, each layer gets its weights, sizes are those of the audio."""
    pointers = {program.weight(name): name for name in expected(SPEC)}
    for each in gpu.launches:
        for value in each.values:
            assert value < 1 << 32 or gpu._lies(value, 4) is not None
    given = [pointers[v] for each in gpu.launches for v in each.values if v in pointers]
    front = ["conv1", "conv2", "conv2_sums", "conv2_bias", "conv3", "conv3_bias"]
    layers = [
        f"{layer}.{name}"
        for layer in range(SPEC.layers)
        for name in (
            "mix_norm", "qkv", "mix_out", "mlp_norm", "fc1", "fc1_bias", "fc2", "fc2_bias",
        )
    ]  # fmt: skip
    assert given == [*front, *layers, "norm", "memory"]
    by_name = {each.name: each.values for each in gpu.launches}
    assert by_name["hear"][0] == buffers["audio"].pointer
    assert (by_name["hear"][1], by_name["hear"][5]) == (SAMPLES, HEARD)
    assert (by_name["listen"][1], by_name["listen"][8]) == (HEARD, LISTENED)
    assert by_name["listen"][3] == 16 * 2
    assert (by_name["gather"][1], by_name["gather"][5]) == (LISTENED, FRAMES)
    apart = (buffers["memory_k_1"].pointer - buffers["memory_k_0"].pointer) // 2
    assert by_name["remember"][4:] == (
        buffers["memory_k_0"].pointer, apart, buffers["memory_length"].pointer, FRAMES,
    )  # fmt: skip


def test_pieces_of_the_work_do_not_overlap(device: CudaDevice, gpu: FakeGpu, path: Path) -> None:
    program, stream = EncodeProgram(device, path), device.stream()
    program.bind(bound(device, 2), stream)()
    stream.synchronize()
    values = {each.name: each.values for each in gpu.launches}
    whole = SPEC.heads * SPEC.head_dim
    heard, moments = values["hear"][4], values["hear"][6]
    listened, x = values["listen"][7], values["gather"][4]
    q, k, v = values["project"][3:6]
    mixed, inner = values["attend"][4], values["mlp_in"][4]
    sizes = {
        moments: 2 * 16 * 2 * 3 * 4, heard: 2 * HEARD * 64 * 2, listened: 2 * LISTENED * 128 * 2,
        x: 2 * FRAMES * 64 * 4, q: 2 * FRAMES * whole * 2, k: 2 * FRAMES * whole * 2,
        v: 2 * FRAMES * whole * 2, mixed: 2 * FRAMES * whole * 2, inner: 2 * FRAMES * 96 * 2,
    }  # fmt: skip
    places = sorted(sizes)
    assert len(places) == 9
    for place, after in zip(places, [*places[1:], places[-1] + sizes[places[-1]]], strict=True):
        assert place % 256 == 0
        assert place + sizes[place] <= after


def test_calls_of_a_stream_work_in_the_same_memory(
    device: CudaDevice, gpu: FakeGpu, path: Path
) -> None:
    program, stream = EncodeProgram(device, path), device.stream()
    first, second = (program.bind(bound(device), stream) for _ in "ab")
    first()
    second()
    stream.synchronize()
    begun = [each.values[4] for each in gpu.launches if each.name == "hear"]
    assert begun[0] == begun[1]


def test_what_does_not_fit_is_refused(device: CudaDevice, path: Path) -> None:
    program, stream = EncodeProgram(device, path), device.stream()
    buffers = bound(device)
    with pytest.raises(DeviceError, match="a HostStream is not a stream of a GPU"):
        program.bind(buffers, HostStream())
    with pytest.raises(DeviceError, match="encode: 'length' is not bound"):
        program.bind({name: each for name, each in buffers.items() if name != "length"}, stream)
    elsewhere = device.alloc(buffers["memory_v_2"].shape, np.float16)
    with pytest.raises(DeviceError, match="do not lie evenly apart"):
        program.bind({**buffers, "memory_v_2": elsewhere}, stream)


@pytest.mark.parametrize(
    ("field", "value"),
    [("width", 80), ("inner", 80), ("heads", 2), ("memories", 1), ("channels", (64, 96, 64))],
)
def test_an_encoder_that_kernels_are_not_made_for(
    device: CudaDevice, tmp_path: Path, field: str, value: Any
) -> None:
    spec = msgspec.structs.replace(SPEC, **{field: value})
    save(tmp_path / FILE, spec, weights(spec))
    with pytest.raises(DeviceError, match=f"no kernels for an encoder .*{field}="):
        EncodeProgram(device, tmp_path / FILE)


def test_files_that_are_no_good(device: CudaDevice, tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="does not exist"):
        EncodeProgram(device, tmp_path / FILE)
    save(tmp_path / FILE, SPEC, {**weights(), "memory": weights()["memory"].astype(np.float32)})
    with pytest.raises(ModelDamaged, match=r"memory is float32.*--again"):
        EncodeProgram(device, tmp_path / FILE)
    fewer = weights()
    del fewer["conv2_sums"]
    save(tmp_path / FILE, SPEC, fewer)
    with pytest.raises(ModelDamaged, match=r"conv2_sums is not \(128,\).*--again"):
        EncodeProgram(device, tmp_path / FILE)


def test_a_device_has_it_where_the_engine_has_its_weights(
    gpu: FakeGpu, path: Path, caplog, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = TensorRT("tensorrt", "10.3.0", tensorrt)
    device = TensorRTDevice(open_driver(0, "cuda-bindings"), library)
    assert device.encoder(path.parent / "elsewhere") is None
    assert isinstance(device.encoder(path.parent), EncodeProgram)

    def fails(*given: object) -> bytes:
        raise DeviceError("NVRTC does not do it", "Install another.")

    monkeypatch.setattr(room, "compiled", fails)
    with caplog.at_level(logging.WARNING):
        assert device.encoder(path.parent) is None
    assert "NVRTC does not do it. Install another." in caplog.text
    device.close()
    gc.collect()
    gpu.check_released()
