"""The decoder as one program of our own kernels, embedding and head included."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edge_runtime.device.base import Buffer, Call, Stream, TensorSpec
from edge_runtime.device.cuda.stream import CudaStream
from edge_runtime.device.kernels import Launches, archive, packed, upload
from edge_runtime.device.kernels.bindings import check
from edge_runtime.device.step.compile import KERNELS, compiled
from edge_runtime.device.step.launches import LOGITS, StepLaunches
from edge_runtime.device.step.spec import StepSpec, expected
from edge_runtime.errors import DeviceError

if TYPE_CHECKING:
    from edge_runtime.device.cuda.device import CudaDevice


class StepProgram:
    """Takes `tokens` (B,Q), `position` (B), memory, past caches and the table; gives the answers.

    The tensors are those of the embedding and of all decoder tiles together; Q is 1 or a
    multiple of 8. A step of single tokens is three kernels and eight a layer, a longer pass
    as many: in a plan it is two or three times that, and on a fast GPU their number is
    what it costs.
    """

    def __init__(self, device: CudaDevice, path: Path) -> None:
        """Raises `ModelMissing`, `ModelDamaged`, `MissingExtra` or `DeviceError`."""
        self._device = device
        self.spec, weights = archive.load(path, StepSpec)
        self.dtype = weights["0.qkv"].dtype if "0.qkv" in weights else np.dtype(np.float32)
        self._fits(path, weights)
        code = compiled(self.spec, self.dtype, device.driver.capability)
        self._kernels = device.module(code, KERNELS).kernels
        self._weights = upload(
            device,
            {name: packed(each) if each.ndim == 2 else each for name, each in weights.items()},
        )
        self.inputs, self.outputs = self._tensors()

    def bind(self, bindings: Mapping[str, Buffer], stream: Stream) -> Call:
        """See `Program`; every input and output must be bound."""
        if not isinstance(stream, CudaStream):
            raise DeviceError(f"a {type(stream).__name__} is not a stream of a GPU")
        check("step", {**self.inputs, **self.outputs}, bindings)
        work, launches = StepLaunches(self, bindings, stream).made()
        kept = (self, dict(bindings), work)
        return Launches(self._device, self._kernels, launches, stream, kept, "a decoder pass")

    def weight(self, name: str) -> int:
        return self._weights[name].pointer

    def _tensors(self) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
        s = self.spec
        cache = (None, s.heads, s.past, s.head_dim)
        memory = (None, s.heads, None, s.head_dim)
        integer, real = np.dtype(np.int64), np.dtype(np.float32)
        inputs = {
            "tokens": TensorSpec("tokens", integer, (None, None)),
            "position": TensorSpec("position", integer, (None,)),
            "memory_length": TensorSpec("memory_length", integer, (None,)),
            "table": TensorSpec("table", self.dtype, (s.vocabulary, s.width)),
        }
        outputs = {
            "next_token": TensorSpec("next_token", integer, (None, None)),
            "frame": TensorSpec("frame", integer, (None, None)),
            "logprob": TensorSpec("logprob", real, (None, None)),
            "margin": TensorSpec("margin", real, (None, None)),
            "align": TensorSpec("align", real, (None, None, None)),
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

    def _fits(self, path: Path, weights: archive.Arrays) -> None:
        s = self.spec
        fits = (
            s.width % 32 == 0 and s.inner % 16 == 0 and s.head_dim % 8 == 0
            and s.heads * s.head_dim % 16 == 0
            and s.rotary % 16 == 0 and 32 <= s.head_dim <= 64
            and s.past % 32 == 0 and s.past >= 2 * s.head_dim and s.heads <= 8
            and s.vocabulary % LOGITS == 0 and 0 < len(s.alignment_heads) < 15
        )  # fmt: skip
        if not fits:
            raise DeviceError(f"{path.name}: no kernels for a decoder of these dimensions: {s}")
        archive.check(path, weights, expected(s))
