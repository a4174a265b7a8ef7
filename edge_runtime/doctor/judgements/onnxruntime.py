"""onnxruntime: which wheel it is, which GPUs it has kernels for, which libraries it wants."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from edge_runtime.doctor.base import Finding, error, ok, warning
from edge_runtime.doctor.facts import Capability, Facts, Packages
from edge_runtime.doctor.judgements.board import (
    capability,
    dotted,
    has_gpu,
    is_jetson,
    release,
    tensorrt_serves,
)

_CPU, _GPU = "onnxruntime", "onnxruntime-gpu"
_INDEXES = {36: "jp6/cu126", 38: "sbsa/cu130", 39: "sbsa/cu130"}
_TEGRA = ((5, 3), (6, 2), (7, 2), (8, 7))
"""Capabilities of Jetsons for which CUDA does not promise that desktop kernels run."""


def onnxruntime(facts: Facts) -> Iterator[Finding]:
    """Every server needs it for the voice detector; on a GPU it is the way after TensorRT."""
    packages, loaded = facts.packages, facts.onnxruntime
    if packages is not None and {_CPU, _GPU} <= packages.installed.keys():
        yield error(
            "onnxruntime",
            "onnxruntime and onnxruntime-gpu are both installed",
            "They write over each other's files, and which of them works is chance.",
            f"pip uninstall -y onnxruntime onnxruntime-gpu && {_install(facts)}",
        )
        return
    if loaded is None or packages is None:
        return
    if loaded.trouble or not loaded.version:
        yield error(
            "onnxruntime",
            "onnxruntime does not load" if loaded.trouble else "onnxruntime is not installed",
            loaded.trouble or "Without it nothing serves: the voice detector runs in it.",
            _install(facts, "--force-reinstall "),
        )
        return
    named = f"{loaded.version}, {_providers(loaded.providers)}"
    if not has_gpu(facts):
        yield ok("onnxruntime", named)
    elif not packages.provider:
        yield _cpu_only(facts, loaded.version)
    else:
        wrong = [*_kernels(facts, packages), *_libraries(facts, packages)]
        yield from wrong or [ok("onnxruntime", f"{named}; kernels for {_listed(packages)}")]


def _grave(facts: Facts) -> Callable[[str, str, str, str], Finding]:
    """Where TensorRT serves, what is wrong with the way after it is a warning."""
    return warning if tensorrt_serves(facts) else error


def _cpu_only(facts: Facts, version: str) -> Finding:
    if tensorrt_serves(facts):
        return ok("onnxruntime", f"{version}, for the CPU alone; TensorRT has the GPU")
    where = " On a Jetson that is what pip brings." if is_jetson(facts) else ""
    return error(
        "onnxruntime",
        f"onnxruntime {version} is the wheel for the CPU alone, and TensorRT does not load",
        f"Nothing uses the GPU.{where}",
        f"pip uninstall -y onnxruntime && {_install(facts)}",
    )


def _kernels(facts: Facts, packages: Packages) -> Iterator[Finding]:
    here = capability(facts)
    if here is None or packages.unread or not _all(packages):
        return
    runs = covered(here, packages)
    if runs == "all":
        return
    name = f"sm_{here[0]}{here[1]}"
    has = f"It has kernels for {_listed(packages)}."
    if runs == "related":
        yield warning(
            "onnxruntime",
            f"the wheel has no kernels made for this GPU ({name})",
            f"{has} CUDA promises nothing for desktop kernels on a Jetson, though those of "
            "the same generation have been seen to run.",
            _install(facts, "--force-reinstall "),
        )
        return
    yield _grave(facts)(
        "onnxruntime",
        f"the wheel has no kernels for this GPU ({name})",
        f'{has} The first one fails: "no kernel image is available for execution".',
        _install(facts, "--force-reinstall "),
    )


def covered(here: Capability, packages: Packages) -> str:
    """ "all", "related" or "none" of a wheel's kernels run on a GPU of this capability.

    A cubin runs on its own major version from its minor on, except that between desktop GPUs and
    Jetsons nothing is promised; PTX of the same or an older one is compiled when it is loaded
    (CUDA C++ programming guide, binary and PTX compatibility). Code for one architecture alone
    runs there and nowhere else.
    """
    if here in packages.cubins or here in packages.alone:
        return "all"
    if any(each <= here for each in packages.ptx):
        return "all"
    if any(each[0] == here[0] and each[1] <= here[1] for each in packages.cubins):
        return "related" if here in _TEGRA else "all"
    return "none"


def _libraries(facts: Facts, packages: Packages) -> Iterator[Finding]:
    for wanted in packages.needed:
        if wanted in packages.libraries:
            continue
        name, _, major = wanted.partition(".so.")
        others = [each for each in packages.libraries if each.startswith(f"{name}.so.")]
        there = f"here is {' and '.join(others)}" if others else "there is none here"
        what = f"cuDNN {major}" if name == "libcudnn" else wanted
        yield _grave(facts)(
            "cudnn" if name == "libcudnn" else "cuda",
            f"onnxruntime wants {what}, {there}",
            f"Without {wanted} its GPU part does not load, and the CPU is used.",
            _library_fix(facts, packages, name, major),
        )


def _library_fix(facts: Facts, packages: Packages, name: str, major: str) -> str:
    if is_jetson(facts):
        return _install(facts, "--force-reinstall ")
    if name == "libcudnn":
        cuda = next((each[-2:] for each in packages.needed if each.startswith("libcudart.")), "12")
        return f"pip install 'nvidia-cudnn-cu{cuda}=={major}.*'"
    return f"pip install --force-reinstall '{_GPU}[cuda,cudnn]'"


def _install(facts: Facts, options: str = "") -> str:
    """The line that brings the wheel that fits."""
    if not has_gpu(facts):
        return f"pip install {options}{_CPU}"
    if not is_jetson(facts) or facts.jetson is None:
        return f"pip install {options}{_GPU}"
    index = _INDEXES.get(release(facts.jetson.l4t or "0")[0], _INDEXES[36])
    return f"pip install {options}{_GPU} --index-url https://pypi.jetson-ai-lab.io/{index}"


def _providers(names: Sequence[str]) -> str:
    return ", ".join(re.sub("ExecutionProvider$", "", name) for name in names) or "no providers"


def _all(packages: Packages) -> list[Capability]:
    return sorted({*packages.cubins, *packages.ptx, *packages.alone})


def _listed(packages: Packages) -> str:
    found = [dotted(each) for each in sorted({*packages.cubins, *packages.alone})]
    found += [f"{dotted(each)} (PTX)" for each in packages.ptx]
    return ", ".join(found) or "GPUs that cannot be told"
