"""The GPU, its driver, and whether this user may use them."""

from __future__ import annotations

from collections.abc import Iterator

from edge_runtime.doctor.base import Finding, error, ok, warning
from edge_runtime.doctor.facts import Facts, Gpu
from edge_runtime.doctor.judgements.board import (
    device,
    dotted,
    has_gpu,
    is_jetson,
    release,
    tensorrt_serves,
)

_BINDINGS = {36: "'cuda-bindings>=12.6,<13'"}
_NEWEST = "'cuda-bindings>=13,<14'"
_CUDA_13 = 580
"""The desktop driver that came with CUDA 13."""


def gpu(facts: Facts) -> Iterator[Finding]:
    """One finding on what is furthest down: bus, nodes, rights, bindings, CUDA."""
    found = facts.gpu
    if found is None:
        return
    if device(facts) == "cpu":
        yield ok("gpu", "not used: the configured device is the CPU")
        return
    if not found.nodes:
        yield _absent(facts, found)
        return
    if found.hidden:
        yield warning(
            "gpu",
            "CUDA_VISIBLE_DEVICES hides the GPU",
            "With it empty or -1 no program sees a GPU; the CPU serves.",
            "unset CUDA_VISIBLE_DEVICES",
        )
        return
    shut = [node for node in found.nodes if not node.usable]
    if shut:
        yield _shut(facts, shut[0].path, {node.group for node in shut})
        return
    yield from _cuda(facts, found)


def _absent(facts: Facts, found: Gpu) -> Finding:
    if is_jetson(facts):
        return error(
            "gpu",
            "the GPU's driver is not loaded: /dev has none of its files",
            "In a container they are missing without NVIDIA's runtime; else the kernel's module "
            "did not load.",
            "docker run --runtime nvidia … for a container, else: sudo journalctl -k -g nvgpu",
        )
    if found.card:
        return warning(
            "gpu",
            "there is an NVIDIA GPU, and its driver is not loaded",
            "The driver is not installed, or was built for another kernel; the CPU serves.",
            "sudo ubuntu-drivers install && sudo reboot (Debian: sudo apt install nvidia-driver)",
        )
    return ok("gpu", "none here; the CPU serves")


def _shut(facts: Facts, path: str, groups: set[str]) -> Finding:
    user = facts.user.name if facts.user is not None else "USER"
    wanted = ",".join(sorted(groups - {"root"})) or "video,render"
    return error(
        "gpu",
        f"{user} may not open {path}",
        f"The GPU's files are for the groups {wanted.replace(',', ' and ')}, "
        "and this process is not in them.",
        f"sudo usermod -aG {wanted} {user}, then log in again",
    )


def _cuda(facts: Facts, found: Gpu) -> Iterator[Finding]:
    card = facts.card
    bindings = facts.packages.installed.get("cuda-bindings") if facts.packages else None
    if facts.packages is not None and bindings is None:
        yield error(
            "gpu",
            "cuda-bindings is not installed, so the GPU is not used",
            "It is what speaks to the driver.",
            f"pip install {_bindings(facts, found)}",
        )
        return
    if card is None:
        return
    if card.capability is None:
        fix = card.fix or "sudo journalctl -k -g 'NVRM|nvgpu'"
        wanted = _bindings(facts, found)
        if bindings and release(bindings)[0] != release(wanted.split("=")[1])[0]:
            fix = f"pip install {wanted}"
        yield error("gpu", "CUDA does not start", card.trouble, fix)
        return
    driver = f", driver {found.driver}" if found.driver else ""
    yield ok("gpu", f"{card.name}, compute capability {dotted(card.capability)}{driver}")


def nvrtc(facts: Facts) -> Iterator[Finding]:
    """What compiles our own kernels, which serve beside TensorRT's where they are faster."""
    packages = facts.packages
    if packages is None or not has_gpu(facts) or not tensorrt_serves(facts):
        return
    bindings = packages.installed.get("cuda-bindings")
    if bindings is None:
        return
    wanted = f"libnvrtc.so.{release(bindings)[0]}"
    if wanted in packages.libraries:
        yield ok("nvrtc", wanted)
        return
    cuda = "12-6" if wanted.endswith(".12") else "13-2"
    pip = "nvidia-cuda-nvrtc-cu12" if wanted.endswith(".12") else "nvidia-cuda-nvrtc"
    yield warning(
        "nvrtc",
        f"{wanted} is not found, so our own kernels are not compiled",
        "TensorRT's do all of it, and may take longer.",
        f"sudo apt-get install cuda-nvrtc-{cuda}" if is_jetson(facts) else f"pip install {pip}",
    )


def _bindings(facts: Facts, found: Gpu) -> str:
    """What to install for the CUDA of this driver."""
    if is_jetson(facts) and facts.jetson is not None and facts.jetson.l4t:
        return _BINDINGS.get(release(facts.jetson.l4t)[0], _NEWEST)
    old = bool(found.driver) and release(found.driver)[0] < _CUDA_13
    return _BINDINGS[36] if old else _NEWEST
