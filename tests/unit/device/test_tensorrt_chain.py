"""The whole chain on a GPU that is not there: the same tokens as on the CPU, nothing allocated."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.update import Hypothesis, Purpose, Update
from edge_runtime.device.base import Device
from edge_runtime.device.cuda import open_driver
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.device.tensorrt import TensorRT, TensorRTDevice
from tests.fakes import tensorrt as fake
from tests.fakes.gpu import FakeGpu

SIZE = Size(2, 33_000)


@pytest.fixture
def folder(made_up, made_up_store, tmp_path: Path) -> Path:
    """Graphs of the made-up model, and plans of the same, with a profile for single steps."""
    folder = shutil.copytree(made_up_store.graphs(made_up), tmp_path / "engine")
    most = {"B": (1, 1, 2), "N": (895, 16_000, 33_000), "T": (1, 40, 90), "Q": (1, 8, 40)}
    step = {**most, "Q": (1, 1, 1)}
    for path in folder.glob("*.onnx"):
        profiles = [fake.profile(path, step), fake.profile(path, most)]
        fake.Plan(str(path), profiles, scratch=100_000).write(path.with_suffix(".plan"))
    return folder


@pytest.fixture
def clips() -> list[np.ndarray]:
    random = np.random.default_rng(7)
    return [random.normal(0, 0.1, size).astype(np.float32) for size in (20_000, 32_500)]


def run(runner: Runner, clips: list[np.ndarray], **fields: object) -> list[Hypothesis]:
    updates = [
        Update("test", row, Purpose.FINAL, 0, len(clip), limit=11, **fields)
        for row, clip in enumerate(clips)
    ]
    # Audio comes in two pieces, as from a ring that wraps.
    return runner.run(updates, [[clip[:9000], clip[9000:]] for clip in clips])


def runner(device: Device, folder: Path) -> Runner:
    return Runner(Chain(device, folder), SIZE)


@pytest.mark.parametrize("integrated", [False, True])
def test_it_says_what_the_cpu_says(
    tensorrt_gpu: FakeGpu, folder: Path, clips, integrated: bool
) -> None:
    tensorrt_gpu.integrated = integrated
    driver = open_driver(library="cuda-bindings")
    device = TensorRTDevice(driver, TensorRT("tensorrt", "10.3.0", fake))
    there, here = runner(device, folder), runner(OnnxDevice(), folder)
    for batch in ([clips[0]], [clips[1]], clips):
        wanted = run(here, batch, align=True)
        found = run(there, batch, align=True)
        draft = found[0].tokens[:6]
        checked = run(there, batch, draft=draft)
        for want, got, again in zip(wanted, found, checked, strict=True):
            assert len(want.tokens) > 5
            assert got.tokens == again.tokens == want.tokens
            np.testing.assert_allclose(got.logprobs, want.logprobs, atol=1e-4)
            assert got.align is not None
            np.testing.assert_allclose(got.align, want.align, atol=1e-4)
    device.close()
    device.budget.check_integrity()


def test_a_warm_lane_allocates_nothing(
    tensorrt_device: TensorRTDevice, folder: Path, clips
) -> None:
    lane = runner(tensorrt_device, folder)
    lane.warm()
    (first,) = run(lane, clips[:1])
    tensorrt_device.budget.mark_warm()
    taken = dict(tensorrt_device.budget.by_kind)
    for _ in range(3):
        (again,) = run(lane, clips[:1], draft=first.tokens)
        assert again.tokens == first.tokens
    assert tensorrt_device.budget.since_warm == 0
    assert tensorrt_device.budget.by_kind == taken
    assert taken["scratch"] == 100_096
    assert lane.lane.graphs.use.failed == 0


def test_a_lane_takes_scratch_memory_for_its_own_rows(
    tensorrt_gpu: FakeGpu,
    tensorrt_device: TensorRTDevice,
    made_up_store,
    made_up,
    tmp_path: Path,
    clips,
) -> None:
    """Once, before the first graph, however many rows the plans were built for."""
    graphs = shutil.copytree(made_up_store.graphs(made_up), tmp_path / "engine")
    most = {"B": (1, 1, 12), "N": (895, 16_000, 33_000), "T": (1, 40, 90), "Q": (1, 8, 40)}
    for path in graphs.glob("*.onnx"):
        made = fake.Plan(str(path), [fake.profile(path, most)], scratch=5_000_000, each=4)
        made.write(path.with_suffix(".plan"))
    chain = Chain(tensorrt_device, graphs)
    lane = Runner(chain, Size(1, 33_000))
    # What it was tried with is gone, and nothing runs in it any more.
    assert not any(stream.queue for stream in tensorrt_gpu.streams.values())
    scratch = tensorrt_device.budget.by_kind["scratch"]
    assert 4 * 33_000 < scratch < 400_000
    lane.warm()
    (single,) = run(lane, clips[:1])
    assert tensorrt_device.budget.by_kind["scratch"] == scratch
    both = run(Runner(chain, SIZE), clips)
    assert both[0].tokens == single.tokens
    assert 1.5 * scratch < tensorrt_device.budget.by_kind["scratch"] - scratch < 2.5 * scratch


def test_what_batches_are_padded_with_is_counted(
    tensorrt_device: TensorRTDevice, folder: Path, clips
) -> None:
    lane = runner(tensorrt_device, folder)
    run(lane, clips)
    padding = dict(lane.lane.padding)
    assert padding["samples"] == (52_500, 2 * 33_000 - 52_500)
    (found,) = run(lane, clips[:1])
    both = zip(lane.lane.padding["queries"], padding["queries"], strict=True)
    asked, wasted = (now - before for now, before in both)
    # The begin mark and each token but the last; chains go on to their end.
    assert asked == len(found.tokens) == found.cost.passes
    assert 0 <= wasted < max(lane.lane.chains)
    assert (asked + wasted) % 4 == 0


def test_two_lanes_do_not_disturb_each_other(
    tensorrt_device: TensorRTDevice, folder: Path, clips
) -> None:
    chain = Chain(tensorrt_device, folder)
    lanes = [Runner(chain, SIZE) for _ in range(2)]
    alone = [run(lane, [clip])[0].tokens for lane, clip in zip(lanes, clips, strict=True)]
    assert alone[0] != alone[1]
    crossed = [run(lane, [clip])[0].tokens for lane, clip in zip(lanes, clips[::-1], strict=True)]
    assert crossed == alone[::-1]
    assert tensorrt_device.budget.by_kind["scratch"] == 2 * 100_096
