"""What a CUDA status means to us: an error with CUDA's name and text for it, and the fix."""

from __future__ import annotations

from typing import Any

from edge_runtime.errors import DeviceError, DeviceLost

LOST = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        "ASSERT",
        "CONTAINED",
        "CONTEXT_IS_DESTROYED",
        "DEINITIALIZED",
        "DEVICE_UNAVAILABLE",
        "ECC_UNCORRECTABLE",
        "EXTERNAL_DEVICE",
        "HARDWARE_STACK_ERROR",
        "ILLEGAL_ADDRESS",
        "ILLEGAL_INSTRUCTION",
        "INVALID_ADDRESS_SPACE",
        "INVALID_PC",
        "LAUNCH_FAILED",
        "LAUNCH_TIMEOUT",
        "MISALIGNED_ADDRESS",
        "MPS_CLIENT_TERMINATED",
        "NVLINK_UNCORRECTABLE",
        "TENSOR_MEMORY_LEAK",
    )
)
"""Statuses that stick to the context: every later call on it fails as well."""

_RESTART = (
    "Restart edge-runtime; if it comes again, look for NVIDIA's lines (Xid, nvgpu) in the "
    "kernel's log: journalctl -k"
)
_MEMORY = (
    "Stop other programs on the GPU, close sessions, or choose a smaller model; "
    "[computing] memory_mb caps what edge-runtime takes"
)
_DRIVER = "Install an NVIDIA driver at least as new as the CUDA libraries of this environment."
_FIXES = {
    "CUDA_ERROR_OUT_OF_MEMORY": _MEMORY,
    "CUDA_ERROR_NO_DEVICE": (
        "Check that the GPU is seen (nvidia-smi; in a container: --gpus all or --runtime nvidia), "
        "and CUDA_VISIBLE_DEVICES."
    ),
    "CUDA_ERROR_INVALID_DEVICE": "Set [computing] index to a GPU that nvidia-smi lists.",
    "CUDA_ERROR_STUB_LIBRARY": (
        "Let the loader find the driver's own libcuda.so.1 before the toolkit's stub."
    ),
    "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER": _DRIVER,
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "Restart the machine: its driver was updated.",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": _DRIVER,
    "CUDA_ERROR_SYSTEM_NOT_READY": "Start the services of the driver, or restart the machine.",
}


def check(call: str, result: tuple[Any, ...]) -> Any:
    """What a call of cuda-bindings gave, past its status: nothing, one value, or a tuple.

    Raises what `failure` says where the status is not success.
    """
    if result[0]:
        raise failure(call, result[0])
    return result[1] if len(result) == 2 else result[1:]


def failure(call: str, status: Any, what: str = "") -> DeviceError:
    """The error for a status of `call` (a `CUresult`); `what` is what was being done."""
    name = status.name
    message = f"{what or 'the GPU failed'}: {call} says {name}, {text(status)}"
    if name in LOST:
        return DeviceLost(message, _RESTART)
    return DeviceError(message, _FIXES.get(name, _RESTART))


def text(status: Any) -> str:
    """CUDA's own words for a status."""
    from cuda.bindings import driver as cuda

    found, words = cuda.cuGetErrorString(status)
    return "a status that this driver does not know" if found else words.decode()
