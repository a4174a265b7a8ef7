"""Whether buffers are what a program's tensors want."""

from __future__ import annotations

from collections.abc import Mapping

from edge_runtime.device.base import Buffer, TensorSpec
from edge_runtime.errors import DeviceError


def check(program: str, tensors: Mapping[str, TensorSpec], bindings: Mapping[str, Buffer]) -> None:
    """Raises `DeviceError` for the first tensor that is not bound, or to something else."""
    for name, spec in tensors.items():
        buffer = bindings.get(name)
        if buffer is None:
            raise DeviceError(f"{program}: {name!r} is not bound")
        fixed = zip(spec.shape, buffer.shape, strict=False)
        if (
            buffer.dtype != spec.dtype
            or len(buffer.shape) != len(spec.shape)
            or any(wanted not in (None, found) for wanted, found in fixed)
        ):
            raise DeviceError(
                f"{program}: {name!r} wants {spec.dtype} of {spec.shape}, "
                f"got {buffer.dtype} of {buffer.shape}"
            )
