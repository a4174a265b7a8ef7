"""A bound call writes what it is bound to, and nothing else; calls of a stream share memory."""

import gc
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.device.base import Call, TensorSpec
from edge_runtime.device.cuda.memory import CudaBuffer
from edge_runtime.device.tensorrt import TensorRTDevice
from tests.fakes import tensorrt as fake
from tests.fakes.gpu import FakeGpu

Engine = Callable[..., Path]
LARGE = [{"x": [[1, 4], [2, 4], [100, 4]], "count": [[1], [2], [100]]}]
Bound = Callable[..., dict[str, CudaBuffer]]


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
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound, rows: int
) -> None:
    stream, bindings = tensorrt_device.stream(), bound(rows)
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
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    stream, bindings = tensorrt_device.stream(), bound(2)
    call = tensorrt_device.load(engine()).bind(bindings, stream)
    stream.synchronize()
    for name in ("twice", "sum", "more"):
        assert (bindings[name].host == -1).all(), name
    call()
    stream.synchronize()
    assert bindings["more"].host.tolist() == [8, 9]


def test_the_first_run_is_over_before_a_capture(
    tensorrt_gpu: FakeGpu, tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    stream, bindings = tensorrt_device.stream(), bound(2)
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
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    stream, program = tensorrt_device.stream(), tensorrt_device.load(engine())
    first = bound(2, "x", "count", "twice")
    second = {**bound(2, "x", "count", "sum"), "x": first["twice"]}
    calls = [program.bind(first, stream), program.bind(second, stream)]
    graph = tensorrt_device.capture(lambda: [call() for call in calls] and None, stream)
    graph.replay()
    stream.synchronize()
    assert second["sum"].host.tolist() == [12, 44]
    graph.close()


def test_outputs_left_out_go_where_nobody_looks(
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    program = tensorrt_device.load(engine())
    streams = [tensorrt_device.stream() for _ in range(2)]
    wholes = [bound(8, "x", "count", "sum") for _ in streams]
    calls = [program.bind(whole, stream) for whole, stream in zip(wholes, streams, strict=True)]
    # The two streams work at the same time.
    for call in calls:
        call()
    for stream in streams:
        stream.synchronize()
    for whole in wholes:
        assert whole["sum"].host.tolist() == [6 + 16 * row for row in range(8)]


def test_memory_for_what_nobody_looks_at_is_shared(
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    stream, program = tensorrt_device.stream(), tensorrt_device.load(engine())
    few, many = (bound(rows, "x", "count") for rows in (2, 8))
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
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    programs = [tensorrt_device.load(engine(name, scratch=size))
                for name, size in (("large", 70_000), ("none", 0), ("small", 300))]  # fmt: skip
    stream, bindings = tensorrt_device.stream(), bound(2)
    calls = [program.bind(bindings, stream) for program in programs]
    assert tensorrt_device.budget.by_kind["scratch"] == 70_144
    for call in calls:
        bindings["sum"].host[...] = -1
        call()
        stream.synchronize()
        assert bindings["sum"].host.tolist() == [6, 22]


def test_scratch_memory_is_what_the_shapes_need(
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    program = tensorrt_device.load(engine(scratch=100_000, each=1000))
    stream = tensorrt_device.stream()
    calls = [program.bind(bound(rows), stream) for rows in (4, 2)]
    # For 4 · (4 + 1) elements, in whole pieces of 256 bytes.
    assert tensorrt_device.budget.by_kind["scratch"] == 20_224
    # More than was asked for first: in a piece beside the one that the others use.
    several = bound(8)
    calls.append(program.bind(several, stream))
    assert tensorrt_device.budget.by_kind["scratch"] == 20_224 + 40_192
    for call in calls:
        call()
        stream.synchronize()
    assert several["sum"].host[:2].tolist() == [6, 22]


def test_scratch_memory_is_the_most_where_nobody_knows(
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    program = tensorrt_device.load(engine(scratch=100_000, each=1000, fails=["size"]))
    program.bind(bound(2), tensorrt_device.stream())
    assert tensorrt_device.budget.by_kind["scratch"] == 100_096


def test_the_smallest_profile_that_holds_the_shapes(
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    program = tensorrt_device.load(engine())
    assert [profile.index for profile in program.profiles] == [1, 0]
    call = program.bind(bound(1), tensorrt_device.stream())
    assert context_of(call)._profile == 1


def context_of(call: Call) -> fake.IExecutionContext:
    cells = [cell.cell_contents for cell in call.__closure__]
    return next(each for each in cells if isinstance(each, fake.IExecutionContext))


def test_what_nobody_looks_at_has_a_place_of_its_own(
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    # A layer may read again what another one wrote there.
    program, stream = tensorrt_device.load(engine(profiles=LARGE)), tensorrt_device.stream()
    call = program.bind(bound(100, "x", "count"), stream)
    sink = tensorrt_device.sink(stream, 1)
    sizes = {"twice": 1600, "sum": 400, "more": 800}
    places = [(context_of(call)._addresses[name], size) for name, size in sizes.items()]
    end = sink.pointer
    for place, size in sorted(places):
        assert place >= end
        end = place + size
    assert end <= sink.pointer + sink.shape[0]


def test_a_dropped_call_gives_its_memory_back(
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    program, stream = tensorrt_device.load(engine()), tensorrt_device.stream()
    bindings = bound(2)
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
    tensorrt_device: TensorRTDevice, engine: Engine, bound: Bound
) -> None:
    program, failed = tensorrt_device.load(engine()), []

    def lane(number: int) -> None:
        try:
            stream = tensorrt_device.stream()
            for rows in (1, 3, 8, 2):
                bindings = bound(rows, "x", "count", "sum")
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
