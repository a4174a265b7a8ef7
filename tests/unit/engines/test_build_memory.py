"""The memory plan: told before a build, and refused with the option that helps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edge_runtime.engines.build.contract import Signature, Tensor, signatures
from edge_runtime.engines.build.memory import MB, MemoryPlan, plan
from edge_runtime.engines.build.profiles import Range, ranges
from edge_runtime.engines.build.watch import Phases
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.errors import DeviceError

GB = 1024 * MB
MOST = {"B": Range(1, 1, 12), "N": Range(1, 10, 1 << 20)}
FLOATS = Tensor(np.dtype(np.float32), ("B", "N"))


@pytest.fixture
def graphs(tmp_path):
    (tmp_path / "small.onnx").write_bytes(b"x" * MB)
    (tmp_path / "large.onnx").write_bytes(b"x" * (3 * MB))
    return tmp_path


TILES = {
    "small": Signature({"x": FLOATS}, {"y": FLOATS}),
    "large": Signature({"x": FLOATS}, {}),
}


def test_the_largest_tile_counts(graphs) -> None:
    made = plan(graphs, TILES, MOST, "tensorrt_rtx", 4 * GB, 256 * MB)
    assert made.weights == 3 * MB
    assert made.tensors == 2 * 12 * 4 * MB
    assert made.workspace == 256 * MB
    assert made.peak == made.base + 9 * MB + 96 * MB + 256 * MB
    assert str(made) == (
        "memory: 761 MB at most (library 400, weights 3 × 3, tensors 96, workspace 256) of "
        "4096 MB free"
    )
    made.check()


@pytest.mark.parametrize(
    ("free", "workspace"),
    [(100 * GB, 1024), (4 * GB, 1024), (2 * GB, 512), (100 * MB, 32)],
)
def test_the_workspace_is_a_quarter_of_what_is_free(graphs, free, workspace) -> None:
    made = plan(graphs, TILES, MOST, "tensorrt", free, None)
    assert made.workspace == workspace * MB


PLAN = MemoryPlan(12, 100 * MB, 120 * MB, 1024 * MB, 240 * MB, 900 * MB, 0)


@pytest.mark.parametrize(
    ("free", "fix"),
    [
        (2343, "Add --workspace-mb 1023, or"),
        (1600, "Add --workspace-mb 280, or"),
        (1559, "Add --rows 11 --workspace-mb 249, or"),
        (1242, "Add --rows 1 --workspace-mb 32, or"),
        (1241, "End other programs, or build on a larger board"),
    ],
)
def test_what_cannot_fit_names_what_helps(free, fix) -> None:
    made = replace(PLAN, free=free * MB)
    with pytest.raises(DeviceError) as caught:
        made.check()
    assert caught.value.message == f"the build needs about 2344 MB, and {free} MB are free"
    assert caught.value.fix.startswith(fix)


def test_a_larger_workspace_is_twice_as_large_while_there_is_room() -> None:
    roomy = replace(PLAN, free=5000 * MB).larger
    assert roomy is not None
    assert roomy.workspace == 2048 * MB
    tight = replace(PLAN, free=2500 * MB).larger
    assert tight is not None
    assert (tight.workspace, tight.peak) == (1180 * MB, tight.free)
    assert tight.larger is None


def test_the_workspace_is_no_smaller_than_kernels_need(tmp_path) -> None:
    recipe = load_recipe("moonshine-tiny-en")
    tiles = {"encoder": signatures(recipe, "fp32")["encoder"]}
    (tmp_path / "encoder.onnx").touch()
    made = plan(tmp_path, tiles, ranges(recipe, 64, 278_400), "tensorrt_rtx", 8 * GB, None)
    assert made.workspace == made.least > 2 * GB


def test_following_the_advice_helps() -> None:
    replace(PLAN, free=1600 * MB, workspace=280 * MB).check()
    replace(PLAN, free=1559 * MB, rows=11, tensors=110 * MB, workspace=249 * MB).check()


# A workspace of 256 MB was too small and 384 MB large enough for the float16 head, 384 and
# 512 MB for the float32 encoder, 128 and 256 MB for the float32 head: TensorRT-RTX 1.7.
@pytest.mark.parametrize(
    ("precision", "tile", "low", "high"),
    [
        ("fp16", "layers_3_6", 256, 384),
        ("fp32", "encoder", 384, 512),
        ("fp32", "layers_3_6", 128, 256),
    ],
)
def test_the_least_workspace_is_what_was_seen(precision, tile, low, high, tmp_path) -> None:
    recipe = load_recipe("moonshine-tiny-en")
    tiles = {tile: signatures(recipe, precision)[tile]}
    (tmp_path / f"{tile}.onnx").touch()
    made = plan(tmp_path, tiles, ranges(recipe, 12, 278_400), "tensorrt_rtx", 8 * GB, None)
    assert low * MB < made.least < high * MB


def test_phases_become_one_fraction() -> None:
    phases = Phases()
    phases.start("all", None, 2)
    phases.start("first", "all", 4)
    assert phases.step("first", 0) == pytest.approx(1 / 8)
    assert phases.step("first", 3) == pytest.approx(1 / 2)
    phases.finish("first")
    assert phases.step("all", 0) == pytest.approx(1 / 2)
    phases.start("second", "all", 1)
    phases.start("inside", "second", 2)
    assert phases.step("inside", 0) == pytest.approx(3 / 4)
    assert phases.step("inside", 5) == pytest.approx(1)
    assert phases.step("first", 0) == pytest.approx(1)  # over: it tells nothing more
    assert phases.step("all", 0) == pytest.approx(1)  # never back
