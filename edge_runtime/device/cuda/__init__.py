"""The CUDA driver behind one small line: `open_driver` picks the library that speaks to it."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path

from edge_runtime.device.cuda.base import Driver
from edge_runtime.errors import ConfigError, DeviceError, MissingExtra

__all__ = ["Driver", "open_driver", "present"]

LIBRARIES = ("auto", "pycuda", "cuda-bindings")

NODES = ("/dev/nvidiactl", "/dev/nvgpu", "/dev/nvhost-gpu", "/dev/nvmap")
"""What the NVIDIA driver puts under /dev: the first on a desktop, the others on a Jetson."""

_FIX = "Run: pip install 'edge-runtime[gpu]' (on a Jetson: [jetson6] or [jetson7])"

_log = logging.getLogger(__name__)


def present() -> bool:
    """Whether this machine has an NVIDIA GPU with its driver loaded; imports nothing."""
    return any(Path(node).exists() for node in NODES)


def open_driver(index: int = 0, library: str = "auto") -> Driver:
    """The GPU number `index`, through one of `LIBRARIES`.

    `auto` takes PyCUDA where it is installed and loads, else cuda-bindings alone.
    Raises `ConfigError` for an unknown library, `MissingExtra` where one is not installed,
    `DeviceError` where the driver or the GPU is not there or does not work.
    """
    if library not in LIBRARIES:
        raise ConfigError(
            f"unknown CUDA library {library!r}", f"Use one of {', '.join(LIBRARIES)}."
        )
    if importlib.util.find_spec("cuda") is None or (
        importlib.util.find_spec("cuda.bindings") is None
    ):
        raise MissingExtra("cuda-bindings is not installed", _FIX)
    installed = importlib.util.find_spec("pycuda") is not None
    if library == "pycuda" and not installed:
        raise MissingExtra("pycuda is not installed", _FIX)
    if installed and library != "cuda-bindings":
        from edge_runtime.device.cuda.pycuda import PyCudaDriver, broken

        why = broken()
        if why is None:
            return PyCudaDriver(index)
        if library == "pycuda":
            raise DeviceError(
                f"PyCUDA is installed and does not load: {why}",
                "Rebuild it against the CUDA of this machine: "
                "pip install --no-binary pycuda --force-reinstall pycuda",
            )
        _log.warning("PyCUDA is installed and does not load (%s): cuda-bindings is used", why)
    from edge_runtime.device.cuda.bindings import BindingsDriver

    return BindingsDriver(index)
