"""TensorRT on the fake GPU: an "engine" is an ONNX file that onnxruntime runs where pointers lie.

Only the names that edge_runtime uses, with the signatures of the real module. A plan says by
itself what is to go wrong: see `Plan`. `connect` says which GPU it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

__version__ = "10.3.0"

MAGIC = b"fake plan "
Ranges = Mapping[str, Sequence[Sequence[int]]]

DataType = Enum("DataType", "FLOAT HALF BF16 INT64 INT32 INT8 UINT8 BOOL")
TensorIOMode = Enum("TensorIOMode", "NONE INPUT OUTPUT")
TensorLocation = Enum("TensorLocation", "DEVICE HOST")
ExecutionContextAllocationStrategy = Enum(
    "ExecutionContextAllocationStrategy", "STATIC ON_PROFILE_CHANGE USER_MANAGED"
)
CudaGraphStrategy = Enum("CudaGraphStrategy", "DISABLED WHOLE_GRAPH_CAPTURE")
DynamicShapesKernelSpecializationStrategy = Enum(
    "DynamicShapesKernelSpecializationStrategy", "LAZY EAGER NONE"
)

_DTYPES = {
    onnx.TensorProto.FLOAT: (DataType.FLOAT, np.float32),
    onnx.TensorProto.FLOAT16: (DataType.HALF, np.float16),
    onnx.TensorProto.INT64: (DataType.INT64, np.int64),
    onnx.TensorProto.INT32: (DataType.INT32, np.int32),
    onnx.TensorProto.BOOL: (DataType.BOOL, np.bool_),
}


_gpu: Any = None


def connect(monkeypatch: Any, gpu: Any) -> None:
    """Let engines run on `gpu`, a `FakeGpu`, until the test is over."""
    monkeypatch.setitem(globals(), "_gpu", gpu)


def profile(graph: Path, ranges: Mapping[str, Sequence[int]]) -> dict[str, list[list[int]]]:
    """The profile for a graph whose named dimensions have these (least, usual, most)."""
    made = {}
    for value in onnx.load(graph, load_external_data=False).graph.input:
        sizes = [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
        made[value.name] = [
            [ranges[size][end] if isinstance(size, str) else size for size in sizes]
            for end in range(3)
        ]
    return made


@dataclass
class Plan:
    """What a fake plan holds: an ONNX file, one mapping of (least, usual, most) a profile.

    `scratch`, `weights` and `persistent` are bytes: of a context's working memory at most, taken
    by the engine, taken by each context. With `each`, a context works in so many bytes for every
    element of its inputs, and in no more than `scratch`. `fails` names what will not work:
    `deserialize` (as where the library or the GPU is another), `context`, `profile`, `shape`,
    `infer`, `values` (shapes that depend on them), `size`, `address`, `execute`, `second` (all
    runs but the first). `odd` are tensors by what is odd about them: `host`, `bf16` or `open` (an
    output of unknown shape).
    """

    onnx: str
    profiles: list[dict[str, list[list[int]]]] = field(default_factory=list)
    scratch: int = 4096
    weights: int = 1000
    persistent: int = 512
    each: int = 0
    fails: list[str] = field(default_factory=list)
    odd: dict[str, str] = field(default_factory=dict)

    def write(self, path: Path) -> Path:
        path.write_bytes(MAGIC + json.dumps(asdict(self)).encode())
        return path


class ILogger:
    class Severity(Enum):
        INTERNAL_ERROR = 0
        ERROR = 1
        WARNING = 2
        INFO = 3
        VERBOSE = 4

    def log(self, severity: Severity, msg: str) -> None:
        raise NotImplementedError


class IGpuAllocator:
    def allocate_async(self, size: int, alignment: int, flags: int, stream: int) -> int:
        raise NotImplementedError

    def deallocate_async(self, memory: int, stream: int) -> bool:
        raise NotImplementedError

    def reallocate(self, address: int, alignment: int, new_size: int) -> int:
        raise NotImplementedError


class _Memory:
    """A piece that the library took for itself."""

    def __init__(self, allocator: Any, size: int) -> None:
        self._allocator = allocator
        # The one that all versions of the bindings call, whatever the documentation says.
        self._address = allocator.allocate(size, 256, 0)
        self.there = self._address != 0 or size == 0
        assert self._address % 256 == 0

    def __del__(self) -> None:
        assert self._allocator.deallocate(self._address)


class IHostMemory:
    """Read through the buffer protocol in the real one, which Python 3.10 cannot define."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    @property
    def nbytes(self) -> int:
        return len(self._content)

    def __bytes__(self) -> bytes:
        return self._content


class Runtime:
    def __init__(self, logger: ILogger) -> None:
        assert isinstance(logger, ILogger)
        self._logger = logger
        self._allocator: Any = None

    def _set_allocator(self, allocator: IGpuAllocator) -> None:
        assert isinstance(allocator, IGpuAllocator)
        self._allocator = allocator

    gpu_allocator = property(None, _set_allocator)

    def deserialize_cuda_engine(self, serialized_engine: bytes) -> ICudaEngine | None:
        self._logger.log(ILogger.Severity.INFO, "Loaded an engine")
        if not serialized_engine.startswith(MAGIC):
            self._logger.log(ILogger.Severity.ERROR, "magicTag == kEXPECTED_MAGIC_TAG failed")
            return None
        try:
            plan = Plan(**json.loads(serialized_engine.removeprefix(MAGIC)))
        except json.JSONDecodeError:
            self._logger.log(ILogger.Severity.ERROR, "Size mismatch in the plan")
            return None
        if "deserialize" in plan.fails:
            self._logger.log(ILogger.Severity.ERROR, "The engine plan file is not compatible")
            return None
        weights = _Memory(self._allocator, plan.weights)
        if not weights.there:
            self._logger.log(ILogger.Severity.ERROR, "Requested amount of GPU memory")
            return None
        return ICudaEngine(self, plan, weights)


class _Tensor:
    def __init__(self, value: Any, odd: str) -> None:
        kind = value.type.tensor_type
        self.symbols = [d.dim_param or d.dim_value for d in kind.shape.dim]
        self.shape = tuple(-1 if isinstance(size, str) else size for size in self.symbols)
        self.kind, self.dtype = _DTYPES[kind.elem_type]
        self.place = TensorLocation.HOST if odd == "host" else TensorLocation.DEVICE
        if odd == "bf16":
            self.kind = DataType.BF16
        self.open = odd == "open"


class ICudaEngine:
    def __init__(self, runtime: Runtime, plan: Plan, weights: _Memory) -> None:
        self._runtime, self._plan, self._weights = runtime, plan, weights
        graph = onnx.load(plan.onnx, load_external_data=False).graph
        odd = plan.odd
        self._inputs = {v.name: _Tensor(v, odd.get(v.name, "")) for v in graph.input}
        self._outputs = {v.name: _Tensor(v, odd.get(v.name, "")) for v in graph.output}
        self._tensors = {**self._inputs, **self._outputs}
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        self._session = ort.InferenceSession(plan.onnx, options, ["CPUExecutionProvider"])

    @property
    def num_io_tensors(self) -> int:
        return len(self._tensors)

    @property
    def num_optimization_profiles(self) -> int:
        return max(1, len(self._plan.profiles))

    @property
    def device_memory_size_v2(self) -> int:
        return self._plan.scratch

    def get_tensor_name(self, index: int) -> str:
        return list(self._tensors)[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode.INPUT if name in self._inputs else TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name: str) -> DataType:
        return self._tensors[name].kind

    def get_tensor_location(self, name: str) -> TensorLocation:
        return self._tensors[name].place

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return self._tensors[name].shape

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[tuple[int, ...]]:
        return [tuple(shape) for shape in self._plan.profiles[profile_index][name]]

    def create_runtime_config(self) -> IRuntimeConfig:
        return IRuntimeConfig()

    def create_execution_context(
        self, strategy: ExecutionContextAllocationStrategy | IRuntimeConfig
    ) -> IExecutionContext | None:
        config = strategy if isinstance(strategy, IRuntimeConfig) else None
        if config is not None:
            strategy = config._strategy
        assert strategy is ExecutionContextAllocationStrategy.USER_MANAGED
        if config is not None and config._cache is not None:
            config._cache._kernels.add(f"{self._plan.onnx}\n")
        if "context" in self._plan.fails:
            self._log("Cannot create the execution context")
            return None
        persistent = _Memory(self._runtime._allocator, self._plan.persistent)
        if not persistent.there:
            self._log("Requested amount of GPU memory")
            return None
        return IExecutionContext(self, persistent)

    def _log(self, message: str) -> None:
        self._runtime._logger.log(ILogger.Severity.ERROR, message)


class IRuntimeCache:
    def __init__(self) -> None:
        self._kernels: set[str] = set()

    def deserialize(self, blob: bytes) -> bool:
        if not blob.startswith(b"fake cache\n"):
            return False
        self._kernels |= set(blob.decode().splitlines(keepends=True)[1:])
        return True

    def serialize(self) -> IHostMemory:
        return IHostMemory("".join(["fake cache\n", *sorted(self._kernels)]).encode())


class IRuntimeConfig:
    def __init__(self) -> None:
        self.cuda_graph_strategy = CudaGraphStrategy.DISABLED
        self.dynamic_shapes_kernel_specialization_strategy = (
            DynamicShapesKernelSpecializationStrategy.LAZY
        )
        self._strategy = ExecutionContextAllocationStrategy.STATIC
        self._cache: IRuntimeCache | None = None

    def set_execution_context_allocation_strategy(
        self, strategy: ExecutionContextAllocationStrategy
    ) -> None:
        self._strategy = strategy

    def create_runtime_cache(self) -> IRuntimeCache:
        return IRuntimeCache()

    def set_runtime_cache(self, cache: IRuntimeCache) -> bool:
        self._cache = cache
        return True


class IExecutionContext:
    def __init__(self, engine: ICudaEngine, persistent: _Memory) -> None:
        self._engine, self._persistent = engine, persistent
        self._profile = 0
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}
        self._scratch = (0, 0)
        self._needed = engine._plan.scratch
        self._runs = 0

    @property
    def _fails(self) -> list[str]:
        return self._engine._plan.fails

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        self._shapes.clear()
        self._profile = profile_index
        return "profile" not in self._fails

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        tensor = self._engine._inputs[name]
        if "shape" in self._fails or len(shape) != len(tensor.shape):
            return False
        if -1 in tensor.shape and self._engine._plan.profiles:
            low, _, high = self._engine.get_tensor_profile_shape(name, self._profile)
            if not all(a <= b <= c for a, b, c in zip(low, shape, high, strict=True)):
                self._engine._log(f"{name}: {shape} is out of the profile")
                return False
        self._shapes[name] = tuple(shape)
        self._needed = self._engine._plan.scratch
        return True

    def infer_shapes(self) -> list[str]:
        sizes: dict[str, int] = {}
        for name, tensor in self._engine._inputs.items():
            if name not in self._shapes:
                return [name]
            for symbol, size in zip(tensor.symbols, self._shapes[name], strict=True):
                wanted = sizes.setdefault(symbol, size) if isinstance(symbol, str) else symbol
                if wanted != size:
                    raise RuntimeError(f"{symbol} is {wanted} and {size}")
        if "infer" in self._fails:
            raise RuntimeError("shape inference failed")
        if "values" in self._fails:
            return list(self._engine._inputs)
        for name, tensor in self._engine._outputs.items():
            named = [sizes.get(s, -1) if isinstance(s, str) else s for s in tensor.symbols]
            self._shapes[name] = tuple(named)
        if any(-1 in self._shapes[name] for name in self._engine._outputs):
            self._shapes |= _sized(self._engine, self._shapes)
        return []

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        shape = self._shapes[name]
        return (-1,) * len(shape) if self._engine._tensors[name].open else shape

    def update_device_memory_size_for_shapes(self) -> int:
        assert self._shapes.keys() >= self._engine._inputs.keys(), "not every shape is set"
        if "size" in self._fails:
            return 0
        plan = self._engine._plan
        elements = sum(math.prod(self._shapes[name]) for name in self._engine._inputs)
        self._needed = min(plan.each * elements, plan.scratch) if plan.each else plan.scratch
        return self._needed

    def set_device_memory(self, memory: int, size: int) -> None:
        assert memory % 256 == 0
        assert size >= self._needed
        self._scratch = (memory, size)

    def set_tensor_address(self, name: str, memory: int) -> bool:
        assert memory % 256 == 0
        self._addresses[name] = memory
        return "address" not in self._fails

    def execute_async_v3(self, stream_handle: int) -> bool:
        self._runs += 1
        assert self._addresses.keys() == self._engine._tensors.keys(), "not every address is set"
        assert self._scratch[0] or not self._engine._plan.scratch, "no working memory"
        if "execute" in self._fails or ("second" in self._fails and self._runs > 1):
            self._engine._log("Cuda failure: an illegal memory access was encountered")
            return False
        # What was set now is what a captured call goes on using.
        now = dict(self._addresses)
        return not _gpu.launch(stream_handle, lambda: self._run(now), "tensorrt")

    def _run(self, addresses: dict[str, int]) -> None:
        # Nobody may count on what lies there from one call to the next.
        _gpu.array(self._scratch[0], self._scratch[1:], np.uint8)[:] = 0xA5
        binding = self._engine._session.io_binding()
        for names, bind in (
            (self._engine._inputs, binding.bind_input),
            (self._engine._outputs, binding.bind_output),
        ):
            for name, tensor in names.items():
                there = _gpu.array(addresses[name], self._shapes[name], tensor.dtype)
                bind(name, "cpu", 0, tensor.dtype, there.shape, there.ctypes.data)
        self._engine._session.run_with_iobinding(binding)


def _sized(engine: ICudaEngine, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The shapes of outputs with dimensions of their own: what a run on zeros gives."""
    zeros = {name: np.zeros(shapes[name], t.dtype) for name, t in engine._inputs.items()}
    results = engine._session.run(None, zeros)
    return {name: each.shape for name, each in zip(engine._outputs, results, strict=True)}
