"""onnxruntime on a GPU: its CUDA provider, or TensorRT inside onnxruntime, on our own streams."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime as ort

from edge_runtime.device.base import Buffer, Call, Stream
from edge_runtime.device.cuda.base import Driver
from edge_runtime.device.cuda.budget import Budget
from edge_runtime.device.cuda.device import CudaDevice
from edge_runtime.device.cuda.outlay import Outlay
from edge_runtime.device.cuda.status import LOST
from edge_runtime.device.cuda.stream import CudaStream
from edge_runtime.device.onnx_program import OnnxProgram, Provider, open_session
from edge_runtime.errors import DeviceError, DeviceLost, MissingExtra, ModelDamaged

_log = logging.getLogger(__name__)

PROVIDERS = {
    "onnx-cuda": ("CUDAExecutionProvider",),
    "onnx-tensorrt": ("TensorrtExecutionProvider", "CUDAExecutionProvider"),
}
"""Which providers a device of this name has, the first for every node that it takes."""

CUDA = {
    # Shapes come from few buckets, yet each is new once: a search of all algorithms takes seconds.
    "cudnn_conv_algo_search": "HEURISTIC",
    # float32 is float32: TF32 would round its products to 10 bits.
    "use_tf32": "0",
    # Doubling would take twice of what a longer bucket needs.
    "arena_extend_strategy": "kSameAsRequested",
    "do_copy_in_default_stream": "1",
}
"""Options of the CUDA provider; device, stream and limit come with the session."""

TENSORRT = {
    "trt_engine_cache_enable": "True",
    "trt_timing_cache_enable": "True",
}
"""Options of the TensorRT provider; device, stream and folder come with the session.

Without `trt_fp16_enable` it takes every type as the graph has it, from TensorRT 9 on; with it,
also the sums that a float16 graph keeps in float32 could be rounded.
"""

RUN = {"disable_synchronize_execution_providers": "1"}
"""Options of every run: it enqueues, and `Stream.synchronize` is where the host waits."""

CHAINED = 1
"""A call takes the host longer than the GPU: a step beyond the end is dearer than a look."""

_FAILURE = re.compile(r"\bCUDA (?:failure|error) (\d+)", re.IGNORECASE)
_OURS = re.compile(r"(CUDA|CUDNN|CUBLAS) (failure|error) \d|failed to allocate", re.IGNORECASE)


class OnnxCudaProgram(OnnxProgram):
    """A graph on the GPU. Its calls enqueue on the one stream of its device."""

    def _taken_when_bound(self) -> list[str]:
        """Integers: where only nodes on the CPU read one, it is copied there when it is bound."""
        return [name for name, spec in self.inputs.items() if spec.dtype == np.int64]

    def __init__(
        self,
        session: ort.InferenceSession,
        name: str,
        place: tuple[str, int],
        entries: Mapping[str, str],
        outlay: Outlay,
    ) -> None:
        super().__init__(session, name, place, entries)
        self._outlay = outlay

    def bind(self, bindings: Mapping[str, Buffer], stream: Stream) -> Call:
        """A call whose first run is counted: then onnxruntime takes what these shapes need.

        Over the cap that raises `MemoryCapped`, and so does every later run.
        """
        run = super().bind(bindings, stream)
        counted = False

        def call() -> None:
            nonlocal counted
            if counted:
                run()
                return
            with self._outlay.counted():
                run()
            counted = True

        return call

    def _failure(self, message: str) -> DeviceError:
        found = _FAILURE.search(message)
        if found and _sticks(int(found[1])):
            return DeviceLost(message, "Restart edge-runtime; the kernel's log may say more.")
        return DeviceError(message)


class OnnxCudaDevice(CudaDevice):
    """A GPU through onnxruntime: one lane, and kernels launched one by one, never captured.

    A session enqueues on one stream for good. Another lane would need sessions of its own,
    each with a copy of the weights and an arena, for what is the second choice already.
    """

    suffix = ".onnx"
    batches = True
    rounds = True
    ordered = True
    """onnxruntime computes small integers on the CPU: what it needs there of our buffers, and what
    it puts back, it copies on the default stream."""
    memory = "cuda"
    """What onnxruntime calls the memory that our pointers lie in."""

    def __init__(
        self,
        driver: Driver,
        name: str = "onnx-cuda",
        *,
        budget: Budget | None = None,
        priority: int = 0,
        chained: int = 0,
        options: Mapping[str, str] | None = None,
        run: Mapping[str, str] | None = None,
    ) -> None:
        """`options` go over `CUDA` and `TENSORRT`, `run` over `RUN`; 0 `chained` is `CHAINED`.

        Raises `MissingExtra` where onnxruntime was built without one of the providers.
        """
        for provider in PROVIDERS[name]:
            if provider not in ort.get_available_providers():
                driver.close()
                raise MissingExtra(
                    f"this onnxruntime has no {provider}",
                    "Run: pip uninstall onnxruntime && pip install onnxruntime-gpu",
                )
        # TensorRT inside onnxruntime has no option for it: float32 is float32.
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
        _preload()
        super().__init__(driver, budget=budget, priority=priority, lanes=1, graphs=False)
        self.name = "{} {} ({}, {}.{})".format(
            name, ort.__version__, driver.name, *driver.capability
        )
        self.chained = chained or CHAINED
        self._providers = PROVIDERS[name]
        self._run = {**RUN, **(run or {})}
        self._options = dict(options or {})
        self._stream: CudaStream = super().stream()

    def load(self, plan: Path) -> OnnxCudaProgram:
        """Raises also `DeviceError` where the libraries that the provider needs are not there.

        onnxruntime itself would go on without the GPU, and say so in its own log alone.
        """
        try:
            with self.outlay.counted(), self.driver.current():
                session = open_session(plan, self._options_of(plan))
        except ModelDamaged as error:
            if not _OURS.search(error.message):
                raise
            raise DeviceError(
                error.message, "Free memory of the GPU, or raise computing.memory_mb."
            ) from error
        if session.get_providers()[0] != self._providers[0]:
            raise DeviceError(
                f"onnxruntime {ort.__version__} cannot use {self._providers[0]}",
                "Install the CUDA and cuDNN that it was built for; its log names what is missing.",
            )
        place = (self.memory, self.driver.index)
        return OnnxCudaProgram(session, plan.stem, place, self._run, self.outlay)

    def stream(self) -> CudaStream:
        return self._stream

    def _options_of(self, plan: Path) -> list[Provider]:
        place = {
            "device_id": str(self.driver.index),
            "user_compute_stream": str(self._stream.handle),
        }
        cuda = {**place, **CUDA}
        if self.budget.cap is not None:
            # For the arena of each session; what all of them take is seen when they have it.
            cuda["gpu_mem_limit"] = str(max(1, self.budget.cap - self.budget.taken))
        made: list[Provider] = []
        for name in self._providers:
            options = cuda if name == "CUDAExecutionProvider" else {**place, **_tensorrt(plan)}
            known = {key: value for key, value in self._options.items() if _belongs(key, name)}
            made.append((name, {**options, **known}))
        return made


def _sticks(number: int) -> bool:
    """Whether every later call fails as well, after CUDA gave this status."""
    from cuda.bindings import driver as cuda

    known = {status.value: status.name for status in cuda.CUresult}
    return known.get(number) in LOST


def _belongs(option: str, provider: str) -> bool:
    return option.startswith("trt_") == (provider == "TensorrtExecutionProvider")


def _tensorrt(plan: Path) -> dict[str, str]:
    """Engines lie beside their graph: its folder is named by all that decides what they are.

    Raises `DeviceError` where that folder cannot be written.
    """
    folder = plan.parent / f"onnx-tensorrt-{ort.__version__}" / plan.stem
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DeviceError(
            f"{folder} cannot be made: {error.strerror}",
            "Run once as a user who may write there: engines are kept in it.",
        ) from error
    return {
        **TENSORRT,
        "trt_engine_cache_path": str(folder),
        "trt_timing_cache_path": str(folder.parent),
    }


def _preload() -> None:
    """Load CUDA and cuDNN where pip has put them; what is said about it goes to the log."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        ort.preload_dlls()
    for line in said.getvalue().splitlines():
        _log.debug("%s", line)
