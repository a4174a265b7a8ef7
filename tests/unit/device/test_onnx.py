"""Programs on the CPU read and write the memory they are bound to, and say what is wrong."""

import gc
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.device.base import TensorSpec
from edge_runtime.device.onnx import HostBuffer, OnnxDevice
from edge_runtime.errors import DeviceError, ModelDamaged, ModelMissing

Bindings = dict[str, HostBuffer]


@pytest.fixture
def bindings(device: OnnxDevice) -> Bindings:
    shapes = {"x": (2, 4), "count": (2,), "twice": (2, 4), "sum": (2,), "more": (2,)}
    whole = {"count", "more"}
    made = {
        name: device.alloc(shape, np.int64 if name in whole else np.float32)
        for name, shape in shapes.items()
    }
    made["x"].host[:] = np.arange(8).reshape(2, 4)
    made["count"].host[:] = 7, -1
    return made


def test_memory_is_zeroed_and_shaped(device: OnnxDevice) -> None:
    buffer = device.alloc((3, 2), np.float16, "pinned")
    assert buffer.shape == (3, 2)
    assert buffer.dtype == np.float16
    assert not buffer.host.any()


def test_memory_that_is_not_there(device: OnnxDevice) -> None:
    with pytest.raises(DeviceError, match=f"{4 << 50} bytes.*Close"):
        device.alloc((1 << 50,), np.float32)


def test_a_program_says_what_it_takes_and_gives(device: OnnxDevice, plan: Path) -> None:
    program = device.load(plan)
    assert program.inputs == {
        "x": TensorSpec("x", np.dtype(np.float32), (None, 4)),
        "count": TensorSpec("count", np.dtype(np.int64), (None,)),
    }
    assert program.outputs == {
        "twice": TensorSpec("twice", np.dtype(np.float32), (None, 4)),
        "sum": TensorSpec("sum", np.dtype(np.float32), (None,)),
        "more": TensorSpec("more", np.dtype(np.int64), (None,)),
    }


def test_results_land_in_the_bound_memory(
    device: OnnxDevice, plan: Path, bindings: Bindings
) -> None:
    arrays = {name: buffer.host for name, buffer in bindings.items()}
    call = device.load(plan).bind(bindings, device.stream())
    call()
    assert arrays["twice"].tolist() == [[0, 2, 4, 6], [8, 10, 12, 14]]
    assert arrays["sum"].tolist() == [6, 22]
    assert arrays["more"].tolist() == [8, 0]
    # The inputs are read where they lie at each call, by a graph too.
    arrays["x"][:] = 1.0
    arrays["count"][:] = 100
    device.capture(call, device.stream()).replay()
    assert arrays["sum"].tolist() == [4, 4]
    assert arrays["more"].tolist() == [101, 101]
    assert all(bindings[name].host is array for name, array in arrays.items())


def test_one_buffer_is_written_where_its_view_lies(
    device: OnnxDevice, plan: Path, bindings: Bindings
) -> None:
    whole = device.alloc((5,), np.float32)
    whole.host[:] = -1.0
    bindings["sum"] = whole.view((2,), offset=2)
    device.load(plan).bind(bindings, device.stream())()
    assert whole.host.tolist() == [-1, -1, 6, 22, -1]


def test_outputs_left_out_are_not_delivered(
    device: OnnxDevice, plan: Path, bindings: Bindings
) -> None:
    some = {name: bindings[name] for name in ("x", "count", "more")}
    device.load(plan).bind(some, device.stream())()
    assert bindings["more"].host.tolist() == [8, 0]
    assert not bindings["twice"].host.any()


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("x", (2, 4), np.float16),  # another type
        ("count", (2,), np.int32),
        ("x", (8,), np.float32),  # another rank
        ("sum", (2, 1), np.float32),
        ("more", (2,), np.float32),
    ],
)
def test_what_does_not_fit_is_named(
    device: OnnxDevice, plan: Path, bindings: Bindings, name: str, shape: tuple, dtype: type
) -> None:
    bindings[name] = device.alloc(shape, dtype)
    with pytest.raises(DeviceError, match=f"arithmetic: '{name}' wants"):
        device.load(plan).bind(bindings, device.stream())


def test_a_missing_input_is_named(device: OnnxDevice, plan: Path, bindings: Bindings) -> None:
    del bindings["count"]
    with pytest.raises(DeviceError, match="input 'count' is not bound"):
        device.load(plan).bind(bindings, device.stream())


def test_an_unknown_tensor_is_named(device: OnnxDevice, plan: Path, bindings: Bindings) -> None:
    bindings["counts"] = bindings["count"]
    with pytest.raises(DeviceError, match="no tensor 'counts'"):
        device.load(plan).bind(bindings, device.stream())


def test_a_call_that_fails_says_with_what(
    device: OnnxDevice, plan: Path, bindings: Bindings
) -> None:
    bindings["x"] = device.alloc((2, 5), np.float32)
    with pytest.raises(DeviceError, match=r"arithmetic failed with .*\(2, 5\)"):
        device.load(plan).bind(bindings, device.stream())()


def test_a_plan_that_is_not_there(device: OnnxDevice, tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"encoder.onnx does not exist.*edge-runtime pull"):
        device.load(tmp_path / "encoder.onnx")


@pytest.mark.parametrize("kept", [0, 20, 100])
def test_a_plan_that_is_cut_off(device: OnnxDevice, plan: Path, tmp_path: Path, kept: int) -> None:
    broken = tmp_path / "arithmetic.onnx"
    broken.write_bytes(plan.read_bytes()[:kept])
    with pytest.raises(ModelDamaged, match=r"cannot be loaded.*--again"):
        device.load(broken)


def test_the_steady_state_allocates_nothing(
    device: OnnxDevice, plan: Path, bindings: Bindings
) -> None:
    call = device.load(plan).bind(bindings, device.stream())
    for _ in range(50):
        call()
    gc.collect()
    before = resident()
    tracemalloc.start()
    base = tracemalloc.get_traced_memory()[0]
    for _ in range(2000):
        call()
    grown = tracemalloc.get_traced_memory()[0] - base
    tracemalloc.stop()
    assert grown < 2000  # less than a byte a call
    assert resident() - before < 1 << 20


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_lanes_share_the_cores() -> None:
    assert OnnxDevice(threads=1).lanes >= 1
    assert OnnxDevice(threads=10_000).lanes == 1
    assert OnnxDevice(lanes=3).lanes == 3
