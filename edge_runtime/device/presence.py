"""Whether a library of the device line is here and loads, for those who may not import it."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass

from edge_runtime.device.tensorrt.module import find_tensorrt, installed
from edge_runtime.errors import ConfigError, MissingExtra


@dataclass(frozen=True)
class Present:
    """A library that was loaded; `providers` are onnxruntime's."""

    flavour: str
    version: str
    providers: tuple[str, ...] = ()


def load(library: str, flavour: str = "auto") -> Present | None:
    """`tensorrt` in a flavour, `pycuda` or `onnxruntime`; None where it is not installed.

    Raises `MissingExtra` where it does not load, `ConfigError` for another name. A broken library
    may end the process.
    """
    if library == "tensorrt":
        there = installed()
        if not there or (flavour != "auto" and flavour not in there):
            return None
        found = find_tensorrt(flavour)
        return Present(found.flavour, found.version)
    if library not in ("pycuda", "onnxruntime"):
        raise ConfigError(f"unknown library {library!r}", "Ask for tensorrt, pycuda, onnxruntime.")
    if importlib.util.find_spec(library) is None:
        return None
    return _pycuda() if library == "pycuda" else _onnxruntime()


def _pycuda() -> Present:
    from edge_runtime.device.cuda.pycuda import broken

    why = broken()
    if why is not None:
        raise MissingExtra(f"pycuda does not load: {why}", "Compile it again, or remove it.")
    return Present("pycuda", str(importlib.import_module("pycuda").VERSION_TEXT))


def _onnxruntime() -> Present:
    try:
        import onnxruntime

        return Present(
            "onnxruntime",
            str(onnxruntime.__version__),
            tuple(onnxruntime.get_available_providers()),
        )
    except (ImportError, OSError, AttributeError) as error:
        raise MissingExtra(f"onnxruntime does not load: {error}", "Install it again.") from error
