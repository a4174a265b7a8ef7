"""A bound call writes what it is bound to and nothing else; what does not fit is named."""

import gc
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.device.base import TensorSpec
from edge_runtime.device.cuda.memory import CudaBuffer
from edge_runtime.device.tensorrt import TensorRTDevice
from edge_runtime.errors import DeviceError, DeviceLost, ModelDamaged
from tests.fakes.cuda_names import CUresult
from tests.fakes.gpu import FakeGpu

Engine = Callable[..., Path]
Bindings = dict[str, CudaBuffer]

KINDS = {"x": np.float32, "count": np.int64, "twice": np.float32, "sum": np.float32}
SIZES = {"x": (4,), "twice": (4,)}


def bound(device: TensorRTDevice, rows: int, *names: str) -> Bindings:
    """Buffers that the host sees: x is 0, 1, 2, …; count 7, 8, …; outputs are -1."""
    made = {}
    for name in names or ("x", "count", "twice", "sum", "more"):
        dtype = KINDS.get(name, np.int64)
        made[name] = device.alloc((rows, *SIZES.get(name, ())), dtype, "mapped")
        made[name].host[...] = -1
    made["x"].host[...] = np.arange(rows * 4).reshape(rows, 4)
    made["count"].host[...] = np.arange(rows) + 7
    return made


def test_a_program_says_what_it_takes_and_gives(
    tensorrt_device: TensorRTDevice, engine: Engine
) -> None:
    program = tensorrt_device.load(engine())
    assert program.name == "arithmetic"
    assert program.inputs == {
        "x": TensorSpec("x", np.dtype(np.float32), (None, 4)),
        "count": TensorSpec("count", np.dtype(np.int64), (None,)),
    }
    assert program.outputs == {
        "twice": TensorSpec("twice", np.dtype(np.float32), (None, 4)),
        "sum": TensorSpec("sum", np.dtype(np.float32), (None,)),
        "more": TensorSpec("more", np.dtype(np.int64), (None,)),
    }


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_results_land_in_the_bound_memory(
    tensorrt_device: TensorRTDevice, engine: Engine, rows: int
) -> None:
    stream, bindings = tensorrt_device.stream(), bound(tensorrt_device, rows)
    call = tensorrt_device.load(engine()).bind(bindings, stream)
    for turn in range(2):
        bindings["x"].host[...] += turn
        call()
        assert (bindings["more"].host < 0).all() == (turn == 0)  # it only enqueues
        stream.synchronize()
        x = np.arange(rows * 4).reshape(rows, 4) + turn
        assert bindings["twice"].host.tolist() == (2 * x).tolist()
        assert bindings["sum"].host.tolist() == x.sum(axis=1).tolist()
        assert bindings["more"].host.tolist() == [8 + row for row in range(rows)]


def test_binding_leaves_bound_outputs_as_they_are(
    tensorrt_device: TensorRTDevice, engine: Engine
) -> None:
    stream, bindings = tensorrt_device.stream(), bound(tensorrt_device, 2)
    call = tensorrt_device.load(engine()).bind(bindings, stream)
    stream.synchronize()
    for name in ("twice", "sum", "more"):
        assert (bindings[name].host == -1).all(), name
    call()
    stream.synchronize()
    assert bindings["more"].host.tolist() == [8, 9]


def test_the_first_run_is_over_before_a_capture(
    tensorrt_gpu: FakeGpu, tensorrt_device: TensorRTDevice, engine: Engine
) -> None:
    stream, bindings = tensorrt_device.stream(), bound(tensorrt_device, 2)
    program = tensorrt_device.load(engine())
    before = tensorrt_gpu.calls.get("launch", 0)
    call = program.bind(bindings, stream)
    assert tensorrt_gpu.calls["launch"] == before + 1
    graph = tensorrt_device.capture(call, stream)
    stream.synchronize()
    assert (bindings["sum"].host == -1).all()
    allocations = tensorrt_device.budget.allocations
    for turn in range(3):
        bindings["x"].host[...] = turn
        graph.replay()
        stream.synchronize()
        assert bindings["sum"].host.tolist() == [4 * turn] * 2
    assert tensorrt_device.budget.allocations == allocations
    graph.close()


def test_what_one_call_gives_the_next_one_takes(
    tensorrt_device: TensorRTDevice, engine: Engine
) -> None:
    stream, program = tensorrt_device.stream(), tensorrt_device.load(engine())
    first = bound(tensorrt_device, 2, "x", "count", "twice")
    second = {**bound(tensorrt_device, 2, "x", "count", "sum"), "x": first["twice"]}
    calls = [program.bind(first, stream), program.bind(second, stream)]
    graph = tensorrt_device.capture(lambda: [call() for call in calls] and None, stream)
    graph.replay()
    stream.synchronize()
    assert second["sum"].host.tolist() == [12, 44]
    graph.close()


def test_outputs_left_out_go_where_nobody_looks(
    tensorrt_device: TensorRTDevice, engine: Engine
) -> None:
    program = tensorrt_device.load(engine())
    streams = [tensorrt_device.stream() for _ in range(2)]
    wholes = [bound(tensorrt_device, 8, "x", "count", "sum") for _ in streams]
    calls = [program.bind(whole, stream) for whole, stream in zip(wholes, streams, strict=True)]
    # The two streams work at the same time.
    for call in calls:
        call()
    for stream in streams:
        stream.synchronize()
    for whole in wholes:
        assert whole["sum"].host.tolist() == [6 + 16 * row for row in range(8)]


def test_memory_for_what_nobody_looks_at_is_shared(
    tensorrt_device: TensorRTDevice, engine: Engine
) -> None:
    stream, program = tensorrt_device.stream(), tensorrt_device.load(engine())
    few, many = (bound(tensorrt_device, rows, "x", "count") for rows in (2, 8))
    calls = [program.bind(few, stream)]
    taken = tensorrt_device.budget.by_kind["device"]
    calls += [program.bind(few, stream) for _ in range(3)]
    assert tensorrt_device.budget.by_kind["device"] == taken
    assert tensorrt_device.sink(stream, 1).pointer == tensorrt_device.sink(stream, 2).pointer
    other = tensorrt_device.stream()
    assert tensorrt_device.sink(other, 1).pointer != tensorrt_device.sink(stream, 1).pointer
    large = tensorrt_device.sink(stream, 5000)
    assert large.shape == (8192,)
    assert tensorrt_device.sink(stream, 8000) is large
    # Calls that were bound to the smaller one go on with it.
    calls.append(program.bind(many, stream))
    for call in calls:
        call()
    stream.synchronize()


def test_scratch_memory_is_that_of_the_greediest_program(
    tensorrt_device: TensorRTDevice, engine: Engine
) -> None:
    programs = [tensorrt_device.load(engine(name, scratch=size))
                for name, size in (("small", 300), ("none", 0), ("large", 70_000))]  # fmt: skip
    stream, bindings = tensorrt_device.stream(), bound(tensorrt_device, 2)
    calls = [program.bind(bindings, stream) for program in programs]
    assert tensorrt_device.budget.by_kind["scratch"] == 70_144
    for call in calls:
        bindings["sum"].host[...] = -1
        call()
        stream.synchronize()
        assert bindings["sum"].host.tolist() == [6, 22]


def test_the_smallest_profile_that_holds_the_shapes(
    tensorrt_device: TensorRTDevice, engine: Engine
) -> None:
    program = tensorrt_device.load(engine())
    assert [profile.index for profile in program.profiles] == [1, 0]
    call = program.bind(bound(tensorrt_device, 1), tensorrt_device.stream())
    context = next(cell.cell_contents for cell in call.__closure__ if "Context" in str(cell))
    assert context._profile == 1


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
    name: str,
    shape: tuple[int, ...],
    dtype: type,
    said: str,
) -> None:
    bindings = bound(tensorrt_device, 2)
    bindings[name] = tensorrt_device.alloc(shape, dtype)
    with pytest.raises(DeviceError, match=rf"^arithmetic: .*{said}"):
        tensorrt_device.load(engine()).bind(bindings, tensorrt_device.stream())


def test_shapes_that_no_profile_holds(tensorrt_device: TensorRTDevice, engine: Engine) -> None:
    profiles = [
        {"x": [[1, 4], [1, 4], [2, 4]], "count": [[1], [1], [8]]},
        {"x": [[1, 4], [4, 4], [8, 4]], "count": [[1], [1], [2]]},
    ]
    program = tensorrt_device.load(engine(profiles=profiles))
    said = r"'x' is \(4, 4\), allowed is \(1\.\.2, 4\); 'count' is \(4\), allowed is \(1\.\.2\)"
    with pytest.raises(DeviceError, match=said):
        program.bind(bound(tensorrt_device, 4), tensorrt_device.stream())


def test_a_missing_input_is_named(tensorrt_device: TensorRTDevice, engine: Engine) -> None:
    bindings = bound(tensorrt_device, 2)
    del bindings["count"]
    with pytest.raises(DeviceError, match="input 'count' is not bound"):
        tensorrt_device.load(engine()).bind(bindings, tensorrt_device.stream())


def test_an_address_must_be_aligned(tensorrt_device: TensorRTDevice, engine: Engine) -> None:
    bindings = bound(tensorrt_device, 2)
    whole = tensorrt_device.alloc((512,), np.float32)
    bindings["sum"] = whole.view((2,), 64)
    program, stream = tensorrt_device.load(engine()), tensorrt_device.stream()
    program.bind(bindings, stream)
    bindings["sum"] = whole.view((2,), 4)
    with pytest.raises(DeviceError, match=rf"'sum' is at {whole.pointer + 16:#x}.*256 bytes"):
        program.bind(bindings, stream)


def test_a_stream_of_another_device(tensorrt_device: TensorRTDevice, engine: Engine) -> None:
    from edge_runtime.device.onnx import HostStream

    program = tensorrt_device.load(engine())
    with pytest.raises(DeviceError, match="a HostStream is not a stream of a GPU"):
        program.bind(bound(tensorrt_device, 2), HostStream())


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
    tensorrt_device: TensorRTDevice, engine: Engine, fails: str, rows: int, said: str
) -> None:
    program = tensorrt_device.load(engine(fails=[fails]))
    with pytest.raises(DeviceError, match=f"arithmetic: .*{said}"):
        program.bind(bound(tensorrt_device, rows), tensorrt_device.stream())


def test_a_call_that_fails_says_with_what(tensorrt_device: TensorRTDevice, engine: Engine) -> None:
    stream, bindings = tensorrt_device.stream(), bound(tensorrt_device, 2)
    call = tensorrt_device.load(engine(fails=["second"])).bind(bindings, stream)
    said = r"arithmetic: failed, bound to x \(2, 4\), .*illegal memory access"
    with pytest.raises(DeviceError, match=said) as raised:
        call()
    assert not isinstance(raised.value, DeviceLost)
    with pytest.raises(DeviceError, match=r"could not be captured: .*illegal memory access"):
        tensorrt_device.capture(call, stream)


def test_a_device_that_is_lost(
    tensorrt_gpu: FakeGpu, tensorrt_device: TensorRTDevice, engine: Engine
) -> None:
    stream, program = tensorrt_device.stream(), tensorrt_device.load(engine())
    call = program.bind(bound(tensorrt_device, 2), stream)
    tensorrt_gpu.lose()
    with pytest.raises(DeviceLost, match=r"arithmetic: failed.*CUDA_ERROR_LAUNCH_FAILED"):
        call()
    tensorrt_gpu.lost = None


def test_an_output_whose_shape_depends_on_values(
    tensorrt_device: TensorRTDevice, engine: Engine
) -> None:
    program = tensorrt_device.load(engine(odd={"more": "open"}))
    with pytest.raises(DeviceError, match="the shape of 'more' depends on values"):
        program.bind(bound(tensorrt_device, 2), tensorrt_device.stream())


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
    tensorrt_gpu: FakeGpu, tensorrt_device: TensorRTDevice, engine: Engine
) -> None:
    program, stream = tensorrt_device.load(engine()), tensorrt_device.stream()
    bindings = bound(tensorrt_device, 2)
    tensorrt_gpu.fail("cuMemAlloc", CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    with pytest.raises(DeviceError, match=r"no execution context: .*512 bytes.*out of memory"):
        program.bind(bindings, stream)
    program.bind(bindings, stream)  # the next one does not suffer from it


def test_a_dropped_call_gives_its_memory_back(
    tensorrt_device: TensorRTDevice, engine: Engine
) -> None:
    program, stream = tensorrt_device.load(engine()), tensorrt_device.stream()
    bindings = bound(tensorrt_device, 2)
    kept = program.bind(bindings, stream)
    taken = tensorrt_device.budget.by_kind["engine"]
    assert taken == 1024 + 512  # of the engine, and of this call's context
    gc.disable()
    try:
        call = program.bind(bindings, stream)
        assert tensorrt_device.budget.by_kind["engine"] == taken + 512
        stream.synchronize()
        # The collector might come while a graph is captured, when nothing may be freed.
        del call
        assert tensorrt_device.budget.by_kind["engine"] == taken
    finally:
        gc.enable()
    kept()


def test_lanes_bind_and_call_at_the_same_time(
    tensorrt_device: TensorRTDevice, engine: Engine
) -> None:
    program, failed = tensorrt_device.load(engine()), []

    def lane(number: int) -> None:
        try:
            stream = tensorrt_device.stream()
            for rows in (1, 3, 8, 2):
                bindings = bound(tensorrt_device, rows, "x", "count", "sum")
                graph = tensorrt_device.capture(program.bind(bindings, stream), stream)
                for turn in range(5):
                    bindings["x"].host[...] = number + turn
                    graph.replay()
                    stream.synchronize()
                    assert bindings["sum"].host.tolist() == [4 * (number + turn)] * rows
                graph.close()
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=lane, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
