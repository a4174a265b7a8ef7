"""Python packages as their metadata has them, onnxruntime's kernels, and NVIDIA's libraries."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, distributions
from pathlib import Path

from edge_runtime.doctor.elf import Elf
from edge_runtime.doctor.facts import Packages
from edge_runtime.doctor.fatbin import kernels
from edge_runtime.doctor.machine import Machine

_OURS = re.compile(
    r"(onnxruntime|tensorrt|pycuda|cuda-bindings|jetson-stats|sounddevice|numpy|edge-runtime).*"
)
_PROVIDER = "libonnxruntime_providers_cuda.so"
_LIBRARY = re.compile(r"lib(cudnn|cublas|cublasLt|cudart|cufft|curand|nvinfer|nvrtc)\.so\.\d+")
_NVIDIA = re.compile(r"lib(cudnn|cublas|cublasLt|cudart|cufft|curand)\.so\.\d+")
_HOMES = (("CUDA_HOME", "lib64"), ("CUDA_PATH", "lib64"), ("CONDA_PREFIX", "lib"))
_FOLDERS = (
    "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/lib/*-linux-gnu", "/usr/lib/*-linux-gnu/*",
    "/usr/local/cuda/lib64", "/usr/local/cuda*/targets/*/lib",
)  # fmt: skip


def packages(machine: Machine, config: str) -> Packages:
    """What is installed; the wheel's libraries are read as files, nothing is loaded."""
    sites = machine.sites()
    found = {
        _name(each): each.version
        for each in distributions(path=[str(site) for site in sites])
        if _OURS.fullmatch(_name(each))
    }
    here = _libraries(machine, sites)
    for site in sites:
        provider = site / "onnxruntime" / "capi" / _PROVIDER
        if not provider.is_file():
            continue
        try:
            held = kernels(provider)
            return Packages(
                installed=found,
                provider=True,
                needed=_needed(provider, site),
                cubins=held.cubins,
                ptx=held.ptx,
                alone=held.alone,
                libraries=here,
            )
        except (OSError, ValueError) as error:
            return Packages(installed=found, provider=True, libraries=here, unread=str(error))
    return Packages(installed=found, libraries=here)


def _name(found: Distribution) -> str:
    return re.sub(r"[-_.]+", "-", str(found.metadata["Name"] or "")).lower()


def _needed(provider: Path, site: Path) -> tuple[str, ...]:
    """NVIDIA's libraries that the provider loads: by its table, its own hand, or its metadata."""
    with Elf(provider) as elf:
        needed = [each for each in elf.needed() if _NVIDIA.fullmatch(each)]
        if not any(each.startswith("libcudnn.") for each in needed):
            later = elf.mentioned(b"libcudnn.so.")
            needed += [later] if _NVIDIA.fullmatch(later) else _required(site)
    return tuple(needed)


def _required(site: Path) -> list[str]:
    """`libcudnn.so.9` for `nvidia-cudnn-cu12~=9.0` among what the wheel requires."""
    for found in distributions(name="onnxruntime-gpu", path=[str(site)]):
        for each in found.requires or ():
            wanted = re.match(r"nvidia-cudnn-cu\d+\s*[~=>]=\s*(\d+)", each)
            if wanted:
                return [f"libcudnn.so.{wanted[1]}"]
    return []


def _libraries(machine: Machine, sites: list[Path]) -> tuple[str, ...]:
    folders = [path for each in _FOLDERS for path in machine.root.glob(each[1:])]
    given = machine.environ.get("LD_LIBRARY_PATH", "").split(":")
    folders += [machine.path(each) for each in given if each]
    for variable, folder in (
        ("CUDA_HOME", "lib64"),
        ("CUDA_PATH", "lib64"),
        ("CONDA_PREFIX", "lib"),
    ):
        if place := machine.environ.get(variable):
            folders.append(machine.path(place) / folder)
    for listed in machine.path("/etc/ld.so.conf.d").glob("*.conf"):
        lines = machine.text(f"/etc/ld.so.conf.d/{listed.name}").splitlines()
        folders += [machine.path(line.strip()) for line in lines if line.startswith("/")]
    for site in sites:
        folders += [*site.glob("nvidia/*/lib"), site / "onnxruntime" / "capi"]
    names = {path.name for folder in folders for path in folder.glob("lib*.so.*")}
    return tuple(sorted(name for name in names if _LIBRARY.fullmatch(name)))
