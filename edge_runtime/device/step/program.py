"""The step as a program: the whole decoder, embedding and head included, for one token a row."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edge_runtime.device.base import Buffer, Call, Stream, TensorSpec
from edge_runtime.device.cuda.status import check, failure
from edge_runtime.device.cuda.stream import CudaStream
from edge_runtime.device.step import spec as files
from edge_runtime.device.step.compile import KERNELS, compiled
from edge_runtime.errors import DeviceError, ModelDamaged

if TYPE_CHECKING:
    from edge_runtime.device.cuda.device import CudaDevice

_COLUMNS, _THREADS, _CHUNK, _LOGITS = 16, 256, 64, 128
"""As in step.cu."""

_ALIGNED = 256

Launch = tuple[Any, tuple[int, int, int], int, tuple[tuple[Any, ...], tuple[Any, ...]]]


class StepProgram:
    """Takes `tokens`, `position` (B), memory, past caches and the table; gives the answers.

    The tensors are those of the embedding and of all decoder tiles together, with one query a
    row. A step is the chain of three kernels and eight for each layer: in a plan it is about
    three times as many, and on a fast GPU their number is what a step costs.
    """

    def __init__(self, device: CudaDevice, path: Path) -> None:
        """Raises `ModelMissing`, `ModelDamaged`, `MissingExtra` or `DeviceError`."""
        from cuda.bindings import driver as cuda

        self._cuda = cuda
        self._device = device
        self.spec, weights = files.load(path)
        self.dtype = weights["0.qkv"].dtype if "0.qkv" in weights else np.dtype(np.float32)
        self._fits(path, weights)
        device.driver.current()
        code = compiled(self.spec, self.dtype, device.driver.capability)
        self._module = check("cuModuleLoadData", cuda.cuModuleLoadData(code))
        self._kernels = {
            name: check(
                "cuModuleGetFunction", cuda.cuModuleGetFunction(self._module, name.encode())
            )
            for name in KERNELS
        }
        self._weights = self._upload(weights)
        self.inputs, self.outputs = self._tensors()

    def bind(self, bindings: Mapping[str, Buffer], stream: Stream) -> Call:
        """See `Program`; every input and output must be bound."""
        if not isinstance(stream, CudaStream):
            raise DeviceError(f"a {type(stream).__name__} is not a stream of a GPU")
        for name, spec in {**self.inputs, **self.outputs}.items():
            self._check(name, spec, bindings)
        work, launches = _Launches(self, bindings).made()
        handle = self._cuda.CUstream(stream.handle)
        kept = (dict(bindings), work, self)

        def call() -> None:
            self._device.driver.current()
            launch = self._cuda.cuLaunchKernel
            for kernel, (x, y, z), threads, arguments in launches:
                result = launch(kernel, x, y, z, threads, 1, 1, 0, handle, arguments, 0)
                if result[0]:
                    raise failure("cuLaunchKernel", result[0], f"a step of {len(kept)} failed")

        return call

    def kernel(self, name: str) -> Any:
        return self._kernels[name]

    def weight(self, name: str) -> int:
        return self._weights[name].pointer

    def alloc(self, count: int) -> Buffer:
        """Float32 working memory."""
        return self._device.alloc((count,), np.float32)

    def _check(self, name: str, spec: TensorSpec, bindings: Mapping[str, Buffer]) -> None:
        buffer = bindings.get(name)
        if buffer is None:
            raise DeviceError(f"step: {name!r} is not bound")
        fixed = zip(spec.shape, buffer.shape, strict=False)
        if (
            buffer.dtype != spec.dtype
            or len(buffer.shape) != len(spec.shape)
            or any(wanted not in (None, found) for wanted, found in fixed)
        ):
            raise DeviceError(
                f"step: {name!r} wants {spec.dtype} of {spec.shape}, "
                f"got {buffer.dtype} of {buffer.shape}"
            )

    def _tensors(self) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
        s = self.spec
        cache = (None, s.heads, s.past, s.head_dim)
        memory = (None, s.heads, None, s.head_dim)
        integer, real = np.dtype(np.int64), np.dtype(np.float32)
        inputs = {
            "tokens": TensorSpec("tokens", integer, (None, 1)),
            "position": TensorSpec("position", integer, (None,)),
            "memory_length": TensorSpec("memory_length", integer, (None,)),
            "table": TensorSpec("table", self.dtype, (s.vocabulary, s.width)),
        }
        outputs = {
            "next_token": TensorSpec("next_token", integer, (None, 1)),
            "frame": TensorSpec("frame", integer, (None, 1)),
            "logprob": TensorSpec("logprob", real, (None, 1)),
            "margin": TensorSpec("margin", real, (None, 1)),
            "align": TensorSpec("align", real, (None, 1, None)),
            "position_next": TensorSpec("position_next", integer, (None,)),
        }
        for layer in range(s.layers):
            for kind in "kv":
                for name, shape, into in (
                    ("memory", memory, inputs), ("past", cache, inputs), ("new", cache, outputs),
                ):  # fmt: skip
                    full = f"{name}_{kind}_{layer}"
                    into[full] = TensorSpec(full, self.dtype, shape)
        return inputs, outputs

    def _upload(self, weights: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Buffer]:
        """All weights in one piece of device memory, each aligned."""
        places, end = {}, 0
        for name, array in weights.items():
            places[name] = end
            end += -(-array.nbytes // _ALIGNED) * _ALIGNED
        device = self._device
        whole, pinned = (device.alloc((end,), np.uint8, kind) for kind in ("device", "pinned"))
        for name, array in weights.items():
            view = pinned.view((array.nbytes,), places[name])
            view.host[...] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        stream = device.stream()
        device.copy(pinned, whole, stream, "weights")
        stream.synchronize()
        return {
            name: whole.view(array.shape, places[name], array.dtype)
            for name, array in weights.items()
        }

    def _fits(self, path: Path, weights: Mapping[str, np.ndarray[Any, Any]]) -> None:
        s = self.spec
        fits = (
            s.width % 16 == 0 and s.inner % 16 == 0 and s.head_dim % 8 == 0
            and s.past % 32 == 0 and s.past >= s.head_dim and s.heads <= 8
            and s.vocabulary % _LOGITS == 0 and 0 < len(s.alignment_heads) < 15
        )  # fmt: skip
        if not fits:
            raise DeviceError(f"{path.name}: no kernels for a decoder of these dimensions: {s}")
        for name, shape in expected(s).items():
            found = weights.get(name)
            if found is None or found.shape != shape:
                raise ModelDamaged(
                    f"{path}: {name} is not {shape}", "Run: edge-runtime build MODEL --again"
                )


class _Launches:
    """The kernels of one step in their order, with what each is given."""

    def __init__(self, program: StepProgram, bindings: Mapping[str, Buffer]) -> None:
        self._program = program
        self._at = {name: buffer.pointer for name, buffer in bindings.items()}
        spec = self._spec = program.spec
        self._rows = rows = bindings["tokens"].shape[0]
        self._frames = bindings["align"].shape[2]
        self._chunks = -(-self._frames // _CHUNK)
        self._parts = spec.vocabulary // _LOGITS
        self._all = spec.heads * spec.head_dim
        aligned = len(spec.alignment_heads)
        sizes = {
            "x": spec.width,
            "qkv": 3 * self._all,
            "mixed": self._all,
            "query": self._all,
            "inner": spec.inner,
            "pieces": spec.heads * self._chunks * (spec.head_dim + 2),
            "scores": aligned * self._frames,
            "shares": 2 * aligned,
            "bests": 4 * self._parts,
        }
        places, end = {}, 0
        for name, size in sizes.items():
            places[name] = end
            end += -(-rows * size // 64) * 64
        self._work = program.alloc(end)
        for name, place in places.items():
            self._at[name] = self._work.pointer + 4 * place
        self._made: list[Launch] = []

    def made(self) -> tuple[Buffer, list[Launch]]:
        """The working memory, and the launches that use it."""
        self._add("embed", (1, self._rows, 1), _THREADS, "tokens", "table", "x")
        for layer in range(self._spec.layers):
            self._layer(layer)
        self._add(
            "logits", (self._parts, self._rows, 1), _THREADS, "x", self._weight("norm"), "table",
            "bests",
        )  # fmt: skip
        self._add(
            "finish", (1, self._rows, 1), _THREADS, "bests", _Int(self._parts), "scores", "shares",
            _Int(self._frames), "position", "next_token", "logprob", "margin", "frame", "align",
            "position_next",
        )  # fmt: skip
        return self._work, self._made

    def _layer(self, layer: int) -> None:
        spec, rows, whole = self._spec, self._rows, self._all

        def w(name: str) -> int:
            return self._weight(f"{layer}.{name}")

        out = (spec.width // _COLUMNS, rows, 1)
        slots = _Int(ctypes.c_int(spec.slots(layer) & 0xFFFFFFFF).value)
        k, v = f"k_{layer}", f"v_{layer}"
        self._add(
            "normed", (3 * whole // _COLUMNS, rows, 1), _THREADS, "x", w("self_norm"), w("qkv"),
            "qkv", _Int(3 * whole),
        )  # fmt: skip
        self._add(
            "self_mix", (spec.heads, rows, 1), spec.past, "qkv", "position", f"past_{k}",
            f"past_{v}", f"new_{k}", f"new_{v}", "mixed",
        )  # fmt: skip
        self._add("self_out", out, _THREADS, "mixed", w("self_out"), "x")
        self._add(
            "normed", (whole // _COLUMNS, rows, 1), _THREADS, "x", w("cross_norm"), w("query"),
            "query", _Int(whole),
        )  # fmt: skip
        self._add(
            "cross", (spec.heads, self._chunks, rows), 2 * _CHUNK, "query", "memory_length",
            f"memory_{k}", f"memory_{v}", _Int(self._frames), slots, "pieces", "scores",
        )  # fmt: skip
        self._add(
            "cross_out", out, _THREADS, "pieces", _Int(self._chunks), slots, w("cross_out"), "x",
            "shares",
        )  # fmt: skip
        self._add(
            "gated", (spec.inner // _COLUMNS, rows, 1), _THREADS, "x", w("mlp_norm"), w("fc1"),
            w("fc1_bias"), "inner",
        )  # fmt: skip
        self._add("mlp_out", out, _THREADS, "inner", w("fc2"), w("fc2_bias"), "x")

    def _weight(self, name: str) -> int:
        return self._program.weight(name)

    def _add(
        self, kernel: str, grid: tuple[int, int, int], threads: int, *given: str | int | _Int
    ) -> None:
        values: list[int] = []
        kinds: list[Any] = []
        for each in given:
            if isinstance(each, _Int):
                values.append(each.value)
                kinds.append(ctypes.c_int)
            else:
                values.append(self._at[each] if isinstance(each, str) else each)
                kinds.append(ctypes.c_void_p)
        arguments = (tuple(values), tuple(kinds))
        self._made.append((self._program.kernel(kernel), grid, threads, arguments))


class _Int:
    """An argument that is a number, not an address."""

    def __init__(self, value: int) -> None:
        self.value = value


def expected(spec: files.StepSpec) -> dict[str, tuple[int, ...]]:
    """The names and shapes of all weights, matrices as (in, out)."""
    whole = spec.heads * spec.head_dim
    each: Sequence[tuple[str, tuple[int, ...]]] = (
        ("self_norm", (spec.width,)),
        ("qkv", (spec.width, 3 * whole)),
        ("self_out", (whole, spec.width)),
        ("cross_norm", (spec.width,)),
        ("query", (spec.width, whole)),
        ("cross_out", (whole, spec.width)),
        ("mlp_norm", (spec.width,)),
        ("fc1", (spec.width, 2 * spec.inner)),
        ("fc1_bias", (2 * spec.inner,)),
        ("fc2", (spec.inner, spec.width)),
        ("fc2_bias", (spec.width,)),
    )
    found = {f"{layer}.{name}": shape for layer in range(spec.layers) for name, shape in each}
    return {**found, "norm": (spec.width,)}
