"""A deserialised plan, and the execution contexts made of it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from edge_runtime.device.tensorrt.cache import Cache, KernelCache, NoCache
from edge_runtime.device.tensorrt.module import TensorRT
from edge_runtime.device.tensorrt.trouble import Trouble


class Engine:
    """One plan; its contexts get their working memory from us.

    `scratch_size` is the bytes that a context works in for the greediest shapes.
    """

    def __init__(self, tensorrt: TensorRT, engine: Any, plan: Path, trouble: Trouble) -> None:
        self.tensorrt = tensorrt
        self.trouble = trouble
        self.name = plan.stem
        self.raw = engine
        self.scratch_size = int(engine.device_memory_size_v2)
        self._lock = threading.Lock()
        api = tensorrt.api
        self._how: Any = api.ExecutionContextAllocationStrategy.USER_MANAGED
        self.cache: Cache = NoCache()
        if tensorrt.flavour == "tensorrt_rtx":
            self._how = _runtime_config(api, engine, self._how)
            self.cache = KernelCache(self._how, plan.with_name(f"{plan.name}.cache"))

    def context(self) -> Any:
        """A new execution context without memory of its own. Raises `DeviceError`."""
        self.trouble.clear()
        with self._lock:
            context = self.raw.create_execution_context(self._how)
        if context is None:
            raise self.trouble.error(f"{self.name}: no execution context")
        return context


def _runtime_config(api: Any, engine: Any, strategy: Any) -> Any:
    config = engine.create_runtime_config()
    config.set_execution_context_allocation_strategy(strategy)
    # We capture whole chains ourselves, and a captured graph keeps the kernels it was made with.
    config.cuda_graph_strategy = api.CudaGraphStrategy.DISABLED
    kernels = api.DynamicShapesKernelSpecializationStrategy
    config.dynamic_shapes_kernel_specialization_strategy = kernels.EAGER
    return config
