"""The TensorRT library of this machine: `tensorrt`, or `tensorrt_rtx` under either of its names."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_runtime.errors import ConfigError, MissingExtra

FLAVOURS = ("tensorrt", "tensorrt_rtx")
"""The names to ask for, in the order in which they are looked for."""

_BINDINGS = "tensorrt_rtx_bindings"
_LIBRARIES = ("libtensorrt_rtx.so.1", "libtensorrt_onnxparser_rtx.so.1")
_FIXES = {
    "tensorrt": "On a Jetson it comes with JetPack: make the venv with --system-site-packages; "
    "on a desktop, run: pip install tensorrt",
    "tensorrt_rtx": "Run: pip install 'edge-runtime[rtx]'",
}


@dataclass(frozen=True)
class TensorRT:
    """The library, loaded: one of `FLAVOURS`, its exact version, and the module itself."""

    flavour: str
    version: str
    api: Any

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor version."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    @property
    def label(self) -> str:
        """Flavour and release, as people write them."""
        return "{} {}.{}".format(self.flavour, *self.release)


def installed() -> tuple[str, ...]:
    """The flavours that this interpreter can find; nothing is imported."""
    return tuple(flavour for flavour in FLAVOURS if _module(flavour) is not None)


def find_tensorrt(flavour: str = "auto") -> TensorRT:
    """The library called `flavour`, or the first one found for `auto`.

    Raises `ConfigError` for an unknown name, `MissingExtra` where it is not installed
    or does not load.
    """
    if flavour != "auto" and flavour not in FLAVOURS:
        known = ", ".join(("auto", *FLAVOURS))
        raise ConfigError(f"unknown TensorRT {flavour!r}", f"Use one of {known}.")
    wanted = FLAVOURS if flavour == "auto" else (flavour,)
    for each in wanted:
        if (name := _module(each)) is not None:
            return _loaded(each, name)
    raise MissingExtra(f"{' or '.join(wanted)} is not installed", f"{_FIXES[wanted[0]]}.")


def _module(flavour: str) -> str | None:
    """The module to import for a flavour: RTX may lack the package that only re-exports it."""
    names = (flavour, _BINDINGS) if flavour == "tensorrt_rtx" else (flavour,)
    return next((name for name in names if importlib.util.find_spec(name) is not None), None)


def _loaded(flavour: str, name: str) -> TensorRT:
    # Float32 is float32, when it is built as when it is run: TensorRT-RTX takes TF32 unless
    # this says no (its builder's flag is not enough), and refuses a plan built otherwise.
    os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    try:
        if name == _BINDINGS:
            _preload()
        api = importlib.import_module(name)
        return TensorRT(flavour, str(api.__version__), api)
    except (ImportError, OSError, AttributeError) as error:
        raise MissingExtra(f"{name} does not load: {error}", f"{_FIXES[flavour]}.") from error


def _preload() -> None:
    """The bindings alone do not look for their libraries where pip puts them."""
    found = importlib.util.find_spec("tensorrt_rtx_libs")
    if found is None:
        return
    folder = Path(next(iter(found.submodule_search_locations or ())))
    for library in _LIBRARIES:
        ctypes.CDLL(str(folder / library), ctypes.RTLD_GLOBAL)
