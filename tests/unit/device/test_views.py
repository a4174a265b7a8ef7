"""Views of a buffer are its memory, on every device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from edge_runtime.device.base import Device, Kind
from edge_runtime.device.cuda import open_driver
from edge_runtime.device.cuda.device import CudaDevice
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.errors import DeviceError
from tests.fakes import cuda
from tests.fakes.gpu import FakeGpu


@pytest.fixture(params=["cpu", "gpu"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    if request.param == "cpu":
        yield OnnxDevice()
        return
    cuda.install(monkeypatch, FakeGpu())
    made = CudaDevice(open_driver(0, "cuda-bindings"))
    yield made
    made.close()


def test_they_share_memory(device: Device) -> None:
    buffer = device.alloc((4, 6), np.float32, "pinned")
    view = buffer.view((2, 3), offset=6)
    view.host[:] = 5.0
    assert buffer.host[1].tolist() == [5.0] * 6
    inner = view.view((3,), offset=3)
    assert np.shares_memory(inner.host, buffer.host)
    inner.host[:] = 7.0
    assert buffer.host[1].tolist() == [5.0, 5.0, 5.0, 7.0, 7.0, 7.0]
    assert buffer.host.sum() == 36.0
    assert inner.pointer == buffer.pointer + (6 + 3) * 4


def test_they_read_the_bytes_as_another_type(device: Device) -> None:
    buffer = device.alloc((4,), np.int64, "pinned")
    buffer.host[:] = 1, 2, 3, 1 << 32
    assert buffer.view((4,), 2, np.int32).host.tolist() == [3, 0, 0, 1]
    inner = buffer.view((8,), dtype=np.uint8).view((1,), offset=0, dtype=np.int64)
    assert (inner.dtype, inner.host[0]) == (np.int64, 1)


@pytest.mark.parametrize("kind", ["pinned", "device"])
def test_they_do_not_leave_the_buffer(device: Device, kind: Kind) -> None:
    buffer = device.alloc((4, 6), np.float32, kind)
    assert buffer.view((24,)).shape == (24,)
    with pytest.raises(DeviceError, match="leaves a buffer"):
        buffer.view((25,))
    with pytest.raises(DeviceError, match="leaves a buffer"):
        buffer.view((2, 3), offset=12).view((7,), offset=6)
    with pytest.raises(DeviceError, match="leaves a buffer"):
        buffer.view((2,), offset=-1)
    with pytest.raises(DeviceError, match="leaves a buffer"):
        buffer.view((13,), dtype=np.float64)


def test_columns_are_copied_within_each_row(device: Device) -> None:
    buffer = device.alloc((2, 6), np.float32, "pinned")
    buffer.host[:] = np.arange(12).reshape(2, 6)
    stream = device.stream()
    device.copy_columns(buffer, 4, 1, 2, stream, "rows")
    device.copy_columns(buffer, 0, 5, 1, stream, "rows")
    stream.synchronize()
    assert buffer.host.tolist() == [[0, 4, 5, 3, 4, 0], [6, 10, 11, 9, 10, 6]]
