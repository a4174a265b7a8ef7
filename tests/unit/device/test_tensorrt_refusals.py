"""What cannot be bound or does not run is an error that names the tensor, and why."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.device.cuda.memory import CudaBuffer
from edge_runtime.device.onnx import HostStream
from edge_runtime.device.tensorrt import TensorRTDevice
from edge_runtime.errors import DeviceError, DeviceLost, ModelDamaged
from tests.fakes.cuda_names import CUresult
from tests.fakes.gpu import FakeGpu

Engine = Callable[..., Path]
Bound = Callable[..., dict[str, CudaBuffer]]


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "said"),
    [
        ("x", (2, 4), np.float16, r"'x' wants float32 of \(\?, 4\), got float16 of \(2, 4\)"),
        ("count", (2,), np.int32, r"'count' wants int64 of \(\?\), got int32 of \(2\)"),
        ("x", (8,), np.float32, r"'x' wants float32 of \(\?, 4\), got float32 of \(8\)"),
        ("x", (2, 5), np.float32, r"'x' wants float32 of \(\?, 4\), got float32 of \(2, 5\)"),
        ("sum", (2, 1), np.float32, r"'sum' wants float32 of \(\?\)"),
        ("more", (3,), np.int64, r"'more' will be \(2\), the buffer is \(3\)"),
        ("count", (9,), np.int64, r"'count' is \(9\), allowed is \(1\.\.8\)\. Run.*build"),
        ("count", (3,), np.int64, r"these shapes do not go together \(B is 2 and 3\)"),
        ("none", (2,), np.float32, r"has no tensor 'none'"),
    ],
)
def test_what_does_not_fit_is_named(
    tensorrt_device: TensorRTDevice,
    engine: Engine,
    bound: Bound,
    name: str,
    shape: tuple[int, ...],
    dtype: type,
    said: str,
) -> None:
    bindings = bound(2)
    bindings[name] = tensorrt_device.alloc(shape, dtype)
    with pytest.raises(DeviceError, match=rf"^arithmetic: .*{said}"):
        tensorrt_device.load(engine()).bind(bindings, tensorrt_device.stream())


def test_shapes_that_no_profile_holds(
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    profiles = [
        {"x": [[1, 4], [1, 4], [2, 4]], "count": [[1], [1], [8]]},
        {"x": [[1, 4], [4, 4], [8, 4]], "count": [[1], [1], [2]]},
    ]
    program = tensorrt_device.load(engine(profiles=profiles))
    said = r"'x' is \(4, 4\), allowed is \(1\.\.2, 4\); 'count' is \(4\), allowed is \(1\.\.2\)"
    with pytest.raises(DeviceError, match=said):
        program.bind(bound(4), tensorrt_device.stream())


def test_a_missing_input_is_named(
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    bindings = bound(2)
    del bindings["count"]
    with pytest.raises(DeviceError, match="input 'count' is not bound"):
        tensorrt_device.load(engine()).bind(bindings, tensorrt_device.stream())


def test_an_address_must_be_aligned(
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    bindings = bound(2)
    whole = tensorrt_device.alloc((512,), np.float32)
    bindings["sum"] = whole.view((2,), 64)
    program, stream = tensorrt_device.load(engine()), tensorrt_device.stream()
    program.bind(bindings, stream)
    bindings["sum"] = whole.view((2,), 4)
    with pytest.raises(DeviceError, match=rf"'sum' is at {whole.pointer + 16:#x}.*256 bytes"):
        program.bind(bindings, stream)


def test_a_stream_of_another_device(
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    program = tensorrt_device.load(engine())
    with pytest.raises(DeviceError, match="a HostStream is not a stream of a GPU"):
        program.bind(bound(2), HostStream())


@pytest.mark.parametrize(
    ("fails", "rows", "said"),
    [
        ("context", 2, "no execution context: Cannot create the execution context"),
        ("profile", 1, "profile 1 cannot be set"),
        ("shape", 2, r"'x' cannot be \(2, 4\)"),
        ("infer", 2, r"do not go together \(shape inference failed\)"),
        ("values", 2, "shapes depend on the values of x, count"),
        ("address", 2, "cannot be at 0x"),
        ("execute", 2, "failed at its first run.*illegal memory access"),
    ],
)
def test_what_tensorrt_refuses(
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound, fails: str, rows: int, said: str
) -> None:
    program = tensorrt_device.load(engine(fails=[fails]))
    with pytest.raises(DeviceError, match=f"arithmetic: .*{said}"):
        program.bind(bound(rows), tensorrt_device.stream())


def test_a_call_that_fails_says_with_what(
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    stream, bindings = tensorrt_device.stream(), bound(2)
    call = tensorrt_device.load(engine(fails=["second"])).bind(bindings, stream)
    said = r"arithmetic: failed, bound to x \(2, 4\), .*illegal memory access"
    with pytest.raises(DeviceError, match=said) as raised:
        call()
    assert not isinstance(raised.value, DeviceLost)
    with pytest.raises(DeviceError, match=r"could not be captured: .*illegal memory access"):
        tensorrt_device.capture(call, stream)


def test_a_device_that_is_lost(
    tensorrt_gpu: FakeGpu, tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    stream, program = tensorrt_device.stream(), tensorrt_device.load(engine())
    call = program.bind(bound(2), stream)
    tensorrt_gpu.lose()
    with pytest.raises(DeviceLost, match=r"arithmetic: failed.*CUDA_ERROR_LAUNCH_FAILED"):
        call()
    tensorrt_gpu.lost = None


def test_an_output_whose_shape_depends_on_values(
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    program = tensorrt_device.load(engine(odd={"more": "open"}))
    with pytest.raises(DeviceError, match="the shape of 'more' depends on values"):
        program.bind(bound(2), tensorrt_device.stream())


@pytest.mark.parametrize(
    ("odd", "said"),
    [("host", "'more' is INT64 in memory of the host"), ("bf16", "'more' is BF16")],
)
def test_a_plan_that_none_of_ours_is(
    tensorrt_device: TensorRTDevice, engine: Engine, odd: str, said: str
) -> None:
    with pytest.raises(ModelDamaged, match=f"{said}.*edge-runtime build"):
        tensorrt_device.load(engine(odd={"more": odd}))


def test_no_memory_for_a_context(
    tensorrt_gpu: FakeGpu, tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    program, stream = tensorrt_device.load(engine()), tensorrt_device.stream()
    bindings = bound(2)
    tensorrt_gpu.fail("cuMemAlloc", CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    with pytest.raises(DeviceError, match=r"no execution context: .*512 bytes.*out of memory"):
        program.bind(bindings, stream)
    program.bind(bindings, stream)  # the next one does not suffer from it
