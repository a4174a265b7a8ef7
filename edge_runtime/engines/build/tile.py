"""One graph becomes one plan: parsed strongly typed, checked, built in a thread that can stop."""

from __future__ import annotations

import logging
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime.device.tensorrt.logger import make_logger
from edge_runtime.device.tensorrt.module import TensorRT
from edge_runtime.engines.build.contract import Signature, Tensor, check
from edge_runtime.engines.build.profiles import Ranges
from edge_runtime.engines.build.watch import Phases
from edge_runtime.errors import DeviceError

_log = logging.getLogger(__name__)

_DTYPES = {
    "FLOAT": np.float32,
    "HALF": np.float16,
    "INT64": np.int64,
    "INT32": np.int32,
    "INT8": np.int8,
    "BOOL": np.bool_,
}


@dataclass
class Timings:
    """What TensorRT measured of kernels, to be used again by the next build."""

    content: bytes = b""


class WorkspaceTooSmall(DeviceError):
    """No kernels of a tile do with the workspace that there is."""


Current = Callable[[], AbstractContextManager[None]]
"""Makes the GPU to build on current in the calling thread."""


@dataclass(frozen=True)
class Work:
    """How a tile is built; `workspace` is bytes."""

    tensorrt: TensorRT
    workspace: int
    timings: Timings = field(default_factory=Timings)
    current: Current = nullcontext


def build_tile(
    work: Work,
    path: Path,
    signature: Signature,
    profiles: Sequence[Ranges],
    advanced: Callable[[float], None] = lambda done: None,
) -> Any:
    """The serialised plan of the ONNX graph at `path` (a buffer).

    Raises `DeviceError` for what TensorRT cannot parse or build and for tensors that are not as
    `signature` says, `WorkspaceTooSmall` where kernels need more of it. Ctrl-C stops the build
    and is raised once TensorRT has let go.
    """
    try:
        with work.current():
            return _build(work, path, signature, profiles, advanced)
    except BaseException as error:
        # Whoever holds the error holds these frames. What is TensorRT's must be gone now: were
        # it left to the garbage collector, that could run in a call of ours that TensorRT makes
        # under its own lock, and wait for that lock for ever.
        traceback.clear_frames(error.__traceback__)
        raise


def _build(
    work: Work,
    path: Path,
    signature: Signature,
    profiles: Sequence[Ranges],
    advanced: Callable[[float], None],
) -> Any:
    trt = work.tensorrt.api
    said: list[str] = []
    logger = make_logger(work.tensorrt, said.append, aloud=False)
    builder = trt.Builder(logger)
    network = parse(trt, builder, logger, path)
    check(path.stem, signature, found(network))
    config = builder.create_builder_config()
    _configure(work, config)
    for each in profiles:
        config.add_optimization_profile(_profile(builder, signature, each))
    stop = threading.Event()
    monitor = _monitor(trt, stop, advanced)
    if monitor is not None:
        config.progress_monitor = monitor

    def serialised() -> Any:
        with work.current():
            return builder.build_serialized_network(network, config)

    plan = _stoppable(serialised, stop)
    if plan is None:
        raise _refused(path.stem, said, work.workspace)
    if work.tensorrt.flavour == "tensorrt":
        work.timings.content = bytes(config.get_timing_cache().serialize())
    advanced(1.0)
    return plan


def parse(trt: Any, builder: Any, logger: Any, path: Path) -> Any:
    """The strongly typed network of a graph."""
    typed = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    network = builder.create_network(0 if typed is None else 1 << int(typed))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(path)):
        errors = "; ".join(str(parser.get_error(n)) for n in range(parser.num_errors))
        raise DeviceError(
            f"TensorRT cannot read {path.name}: {errors or 'no reason given'}",
            "Use the TensorRT of a supported JetPack, or --device cpu meanwhile.",
        )
    return network


def found(network: Any) -> Signature:
    """What a parsed network takes and gives, with -1 as free dimensions."""
    inputs = [network.get_input(n) for n in range(network.num_inputs)]
    outputs = [network.get_output(n) for n in range(network.num_outputs)]
    return Signature(
        {each.name: _tensor(each) for each in inputs},
        {each.name: _tensor(each) for each in outputs},
    )


def _tensor(tensor: Any) -> Tensor:
    dtype = _DTYPES.get(tensor.dtype.name)
    if dtype is None:
        raise DeviceError(
            f"tensor {tensor.name} is {tensor.dtype.name}", "No graph of ours has this type."
        )
    return Tensor(np.dtype(dtype), tuple(int(size) for size in tensor.shape))


def _configure(work: Work, config: Any) -> None:
    trt = work.tensorrt.api
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, work.workspace)
    config.clear_flag(trt.BuilderFlag.TF32)
    # TensorRT-RTX measures no kernels while it builds.
    if work.tensorrt.flavour != "tensorrt":
        return
    cache = config.create_timing_cache(work.timings.content)
    if not config.set_timing_cache(cache, ignore_mismatch=False):
        _log.info("the timing cache is of another machine: timing again")
        config.set_timing_cache(config.create_timing_cache(b""), ignore_mismatch=False)


def _profile(builder: Any, signature: Signature, each: Ranges) -> Any:
    profile = builder.create_optimization_profile()
    for name, tensor in signature.inputs.items():
        if -1 not in tensor.open:
            continue
        least, usual, most = (
            tensor.sized({letter: getattr(bounds, end) for letter, bounds in each.items()})
            for end in ("least", "usual", "most")
        )
        profile.set_shape(name, least, usual, most)
    return profile


def _monitor(trt: Any, stop: threading.Event, advanced: Callable[[float], None]) -> Any:
    """Tells how far the build is, and ends it once `stop` is set; None before TensorRT 9."""
    if not hasattr(trt, "IProgressMonitor"):
        return None
    phases = Phases()

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            phases.start(phase_name, parent_phase, num_steps)

        def step_complete(self, phase_name: str, step: int) -> bool:
            advanced(phases.step(phase_name, step))
            return not stop.is_set()

        def phase_finish(self, phase_name: str) -> None:
            phases.finish(phase_name)

    return Monitor()


def _stoppable(build: Callable[[], Any], stop: threading.Event) -> Any:
    """What `build` returns, run in a thread: only so does Ctrl-C reach this one at once.

    However often it is pressed, this waits for TensorRT to let go: a build that nobody waits
    for would call us when the interpreter is gone.
    """
    with _pressed(stop), ThreadPoolExecutor(1, "build") as pool:
        future = pool.submit(build)
        wait([future])
    if stop.is_set():
        raise KeyboardInterrupt
    return future.result()


@contextmanager
def _pressed(stop: threading.Event) -> Iterator[None]:
    """Ctrl-C sets `stop`, and raises nothing between two lines that have to stay together."""
    usual = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not main or usual is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: stop.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _refused(tile: str, said: Sequence[str], workspace: int) -> DeviceError:
    reason = said[0] if said else "no reason given"
    if "OutOfMemory" in reason or "workspace" in reason.lower():
        return WorkspaceTooSmall(
            f"{tile} does not fit into a workspace of {workspace >> 20} MB",
            "Raise --workspace-mb, or lower --rows.",
        )
    return DeviceError(
        f"TensorRT cannot build {tile}: {reason}",
        "Run again with --debug, or use --device cpu meanwhile.",
    )
