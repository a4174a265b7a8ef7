"""TensorRT and PyCUDA."""

from __future__ import annotations

from collections.abc import Iterator

from edge_runtime.doctor.base import Finding, error, ok, warning
from edge_runtime.doctor.facts import Facts
from edge_runtime.doctor.judgements.board import device, has_gpu, is_jetson, release

OLDEST = (10, 3)


def tensorrt(facts: Facts) -> Iterator[Finding]:
    """Is it seen, does it load, does it read our graphs."""
    found = facts.tensorrt
    if found is None:
        return
    if not has_gpu(facts) or device(facts) not in ("auto", "tensorrt"):
        if found.version:
            yield ok("tensorrt", f"{found.flavour} {found.version}, for building; not used here")
        return
    if found.trouble:
        fix = "sudo apt-get install --reinstall tensorrt python3-libnvinfer && sudo ldconfig"
        if not is_jetson(facts):
            fix = "pip install --force-reinstall 'edge-runtime[rtx]'"
        yield error("tensorrt", "TensorRT does not load", found.trouble, fix)
    elif not found.version:
        yield _missing(facts)
    elif found.flavour == "tensorrt" and release(found.version) < OLDEST:
        yield error(
            "tensorrt",
            f"TensorRT {found.version} is too old",
            "10.3 is the first that reads our graphs.",
            "On a Jetson: JetPack 6.2 or later; else: pip install -U tensorrt",
        )
    else:
        yield _whole(facts, found.flavour, found.version)


def _missing(facts: Facts) -> Finding:
    if not is_jetson(facts):
        return warning(
            "tensorrt",
            "TensorRT is not installed",
            "It is the fastest way on a GPU; onnxruntime or the CPU serves instead.",
            "pip install 'edge-runtime[rtx]', then edge-runtime build",
        )
    packages = facts.jetson.packages if facts.jetson is not None else {}
    install = "sudo apt-get install tensorrt python3-libnvinfer"
    if "python3-libnvinfer" in packages:
        return error(
            "tensorrt",
            "JetPack's TensorRT is installed, and this Python does not see it",
            "Its module is for the system's python3 alone, and a venv sees it only when it is made "
            "so; made again over itself, it keeps what is in it.",
            _seeing(facts),
        )
    blind = facts.python is not None and not facts.python.system_site
    return error(
        "tensorrt",
        "TensorRT is not installed, so the GPU is not used",
        "On a Jetson it comes with JetPack, not from pip.",
        f"{install} && {_seeing(facts)}" if blind else install,
    )


def _seeing(facts: Facts) -> str:
    """The line that makes a venv see the system's packages: this one, or one in its place."""
    found = facts.python
    place = found.prefix if found is not None and found.venv else ".venv"
    return f"/usr/bin/python3 -m venv --system-site-packages {place}"


def _whole(facts: Facts, flavour: str, version: str) -> Finding:
    packages = facts.jetson.packages if facts.jetson is not None else {}
    library = packages.get("libnvinfer10", "")
    if flavour == "tensorrt" and library and release(library) != release(version):
        return warning(
            "tensorrt",
            f"the module is {version}, the library libnvinfer10 is {library}",
            "Two TensorRT are mixed: engines of the one do not load with the other.",
            "pip uninstall -y tensorrt && sudo apt-get install --reinstall python3-libnvinfer",
        )
    return ok("tensorrt", f"{flavour} {version}")


def pycuda(facts: Facts) -> Iterator[Finding]:
    """It is optional: one that does not load is passed over by the server, too."""
    found = facts.pycuda
    if found is None or not has_gpu(facts):
        return
    if found.trouble:
        yield warning(
            "pycuda",
            "PyCUDA is installed and does not load; cuda-bindings is used",
            f"It is compiled for one CUDA and one Python: {found.trouble}",
            "pip install --no-binary pycuda --force-reinstall pycuda, or pip uninstall pycuda",
        )
    elif found.version:
        yield ok("pycuda", found.version)
