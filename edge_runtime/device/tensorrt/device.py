"""A CUDA device that runs TensorRT plans."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TypeVar

import numpy as np

from edge_runtime.device.base import Buffer
from edge_runtime.device.cuda.base import Driver
from edge_runtime.device.cuda.budget import Budget
from edge_runtime.device.cuda.device import CudaDevice, CudaStream
from edge_runtime.device.encode import EncodeProgram
from edge_runtime.device.encode.spec import FILE as ENCODE
from edge_runtime.device.step import StepProgram
from edge_runtime.device.step.spec import FILE as STEP
from edge_runtime.device.tensorrt.allocator import make_allocator
from edge_runtime.device.tensorrt.engine import Engine
from edge_runtime.device.tensorrt.logger import make_logger
from edge_runtime.device.tensorrt.module import TensorRT, find_tensorrt
from edge_runtime.device.tensorrt.program import TensorRTProgram
from edge_runtime.device.tensorrt.trouble import Trouble
from edge_runtime.errors import (
    DeviceError,
    DeviceLost,
    EdgeRuntimeError,
    MissingExtra,
    ModelDamaged,
    ModelMissing,
)

_log = logging.getLogger(__name__)

CHAINED = 4
"""Decoder steps between two looks of the host: one costs less than the wait for it."""
LANES = 2
"""So that one session is encoded while another is decoded."""

_BUILD = "Run: edge-runtime build MODEL"

Own = TypeVar("Own", EncodeProgram, StepProgram)


class TensorRTDevice(CudaDevice):
    """One GPU with TensorRT: whatever TensorRT itself takes of it comes out of the budget.

    Bind the largest call of a stream first: its scratch memory is then as large as it gets.
    """

    suffix = ".plan"
    batches = True
    rounds = True

    def __init__(
        self,
        driver: Driver,
        tensorrt: TensorRT | str = "auto",
        *,
        budget: Budget | None = None,
        priority: int = 0,
        lanes: int = 0,
        graphs: bool = True,
        chained: int = 0,
        kernels: bool = True,
    ) -> None:
        """`tensorrt` may be the name of a flavour; 0 lanes or steps are as many as serve well.

        Without `kernels` of our own, all passes of the decoder go through the plans.
        Raises `MissingExtra` where TensorRT is not installed, `DeviceError`.
        """
        try:
            found = find_tensorrt(tensorrt) if isinstance(tensorrt, str) else tensorrt
        except EdgeRuntimeError:
            driver.close()
            raise
        super().__init__(
            driver, budget=budget, priority=priority, lanes=lanes or LANES, graphs=graphs
        )
        self.tensorrt = found
        self.name = "{} ({}, {}.{})".format(found.label, driver.name, *driver.capability)
        self.chained = chained or CHAINED
        self._kernels = kernels
        self._trouble = Trouble(driver)
        self._logger = make_logger(found, self._trouble.said)
        self._allocator = make_allocator(found, self, self._trouble)
        self._engines: list[Engine] = []
        self._sinks: dict[int, Buffer] = {}
        self._lock = threading.Lock()
        try:
            with self.outlay.counted(), driver.current():
                self._runtime = found.api.Runtime(self._logger)
        except DeviceError:
            self.close()
            raise
        self._runtime.gpu_allocator = self._allocator

    def load(self, plan: Path) -> TensorRTProgram:
        """Raises `ModelMissing`, `ModelDamaged`, or `DeviceError` where there is no memory."""
        self._open()
        if not plan.is_file():
            raise ModelMissing(f"{plan} does not exist", _BUILD)
        self._trouble.clear()
        with self.outlay.counted(), self.driver.current():
            raw = self._runtime.deserialize_cuda_engine(plan.read_bytes())
            if raw is None:
                raise self._unusable(plan)
            engine = Engine(self.tensorrt, raw, plan, self._trouble)
        program = TensorRTProgram(self, engine)
        self._engines.append(engine)
        return program

    def encoder(self, folder: Path) -> EncodeProgram | None:
        """See `Device`: where the engine has the weights and NVRTC is there, float16 alone.

        Raises `ModelDamaged` or `DeviceLost`.
        """
        return self._own(EncodeProgram, folder / ENCODE)

    def decoder(self, folder: Path) -> StepProgram | None:
        """See `Device`: where the engine has the weights and NVRTC is there.

        Raises `ModelDamaged` or `DeviceLost`.
        """
        return self._own(StepProgram, folder / STEP)

    def _own(self, program: type[Own], path: Path) -> Own | None:
        self._open()
        if not self._kernels:
            return None
        if not path.is_file():
            _log.info("the engine has no %s: that part goes through its plans", path.name)
            return None
        try:
            return program(self, path)
        except DeviceLost:
            raise
        except (MissingExtra, DeviceError) as error:  # also where NVRTC does not know the GPU
            _log.warning("all goes through the plans, which may take longer: %s", error)
            return None

    def sink(self, stream: CudaStream, size: int) -> Buffer:
        """At least `size` bytes that calls on `stream` may write to and nobody reads.

        A larger one takes the place of one that is too small, which lives on with the
        calls it was bound to; doubling bounds them all.
        """
        with self._lock:
            kept = self._sinks.get(stream.handle)
            if kept is None or kept.shape[0] < size:
                kept = self.alloc((1 << (size - 1).bit_length(),), np.uint8)
                self._sinks[stream.handle] = kept
            return kept

    def save_caches(self) -> None:
        """Keep what was compiled on this machine for the next start; call it when warm."""
        with self.driver.current():
            for engine in self._engines:
                engine.cache.save()

    def give(self, pointer: int) -> None:
        """See `CudaDevice`; what is given back after `close` was released there."""
        if not self._closed:
            super().give(pointer)

    def close(self) -> None:
        self._sinks.clear()
        self._engines.clear()
        super().close()

    def _unusable(self, plan: Path) -> ModelDamaged | DeviceError:
        error = self._trouble.error(f"{plan} cannot be loaded")
        if self._trouble.refusal is not None or isinstance(error, DeviceLost):
            return error
        return ModelDamaged(error.message, _BUILD)
