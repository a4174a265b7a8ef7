"""The machine, its GPU and its libraries, as far as they can be told."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from edge_runtime.bench.hardware import hardware
from edge_runtime.device import Device
from edge_runtime.engines.board import board

PACKAGES = (
    "tensorrt", "tensorrt-rtx-cu13-bindings", "onnxruntime-gpu", "cuda-bindings", "pycuda",
    "torch", "transformers", "onnx", "msgspec",
)  # fmt: skip

ASKED = (
    "driver_version", "pstate", "clocks.current.sm", "clocks.max.sm", "clocks.current.memory",
    "clocks.max.memory", "power.limit", "temperature.gpu", "utilization.gpu", "memory.used",
)  # fmt: skip
"""What nvidia-smi is asked: clocks in MHz, power in W, memory in MiB."""


def machine() -> dict[str, Any]:
    """Processor, system, Python and the versions of what decides a figure."""
    found = asdict(hardware())
    for package in PACKAGES:
        try:
            found["versions"][package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def gpu(device: Device) -> dict[str, Any]:
    """The GPU that a device runs on; nothing of a CPU, and only what answers."""
    driver = getattr(device, "driver", None)
    if driver is None:
        return {}
    here = board(driver)
    found: dict[str, Any] = {
        "device": device.name,
        "name": driver.name,
        "capability": "{}.{}".format(*driver.capability),
        "integrated": driver.integrated,
        "memory_gb": round(driver.total / 2**30, 1),
        "driver": here.driver,
        "l4t": here.l4t,
        "library": driver.library,
        "cuda": _cuda(),
    }
    tensorrt = getattr(device, "tensorrt", None)
    if tensorrt is not None:
        found |= {"tensorrt": tensorrt.flavour, "tensorrt_version": tensorrt.version}
    return found


def clocks(index: int = 0) -> dict[str, str]:
    """What nvidia-smi says now; nothing where there is none, as on a Jetson."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return _jetson()
    query = f"--query-gpu={','.join(ASKED)}"
    try:
        told = subprocess.run(
            [program, query, "--format=csv,noheader,nounits", f"--id={index}"],
            capture_output=True, text=True, timeout=20, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in told.stdout.splitlines()[0].split(",")]
    return dict(zip(ASKED, values, strict=False))


def _jetson() -> dict[str, str]:
    """The clock of an integrated GPU, in Hz."""
    found = {}
    for file in Path("/sys/class/devfreq").glob("*gpu*/*_freq"):
        if file.name in ("cur_freq", "max_freq", "min_freq"):
            found[file.name] = file.read_text().strip()
    return found


def _cuda() -> str:
    """The CUDA that the driver brings."""
    if importlib.util.find_spec("cuda") is None:
        return ""
    from cuda.bindings import driver as cuda

    status, version = cuda.cuDriverGetVersion()
    return "" if status else f"{version // 1000}.{version % 1000 // 10}"
