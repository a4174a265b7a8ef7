"""The real model through all of the TensorRT device, on a GPU and a runtime that are not there."""

from pathlib import Path

import pytest

from edge_runtime.audio import RATE
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.device.cuda import open_driver
from edge_runtime.device.tensorrt import TensorRT, TensorRTDevice
from edge_runtime.engines.store import Store
from tests.fakes import cuda
from tests.fakes import tensorrt as fake
from tests.fakes.gpu import FakeGpu

CLIP = "1867-154075-0005"
SECONDS = 3


@pytest.fixture
def folder(recipe, weights_folder, tmp_path: Path) -> Path:
    """Plans of the model beside links to its graphs."""
    graphs = Store().graphs(recipe)
    most = {"B": (1, 1, 1), "N": (32_000, 48_000, 64_000), "T": (1, 123, 165), "Q": (1, 16, 112)}
    for path in graphs.iterdir():
        (tmp_path / path.name).symlink_to(path)
        if path.suffix == ".onnx":
            plan = fake.Plan(str(path), [fake.profile(path, most)])
            plan.write(tmp_path / f"{path.stem}.plan")
    return tmp_path


def test_it_says_what_the_cpu_says(
    monkeypatch: pytest.MonkeyPatch, runner: Runner, decode, spoken, folder: Path
) -> None:
    gpu = FakeGpu(1 << 30, deferred=True)
    cuda.install(monkeypatch, gpu)
    fake.connect(monkeypatch, gpu)
    driver = open_driver(library="cuda-bindings")
    device = TensorRTDevice(driver, TensorRT("tensorrt", "10.3.0", fake))
    there = Runner(Chain(device, folder), Size(1, 4 * RATE))
    clip = spoken(CLIP)[: SECONDS * RATE]
    (want,) = decode(runner, clip)
    (got,) = decode(there, clip)
    assert got.tokens == want.tokens
    assert len(want.tokens) > 8
    assert got.logprobs == pytest.approx(want.logprobs, abs=1e-3)
    # A draft that agrees takes one pass, and the host waits once for it.
    (again,) = decode(there, clip, draft=want.tokens)
    assert again.tokens == want.tokens
    assert (again.cost.accepted, again.cost.waits) == (len(want.tokens), 1)
    assert there.lane.graphs.use.failed == 0
    device.close()
