"""The probes in the order they run: each looks at one thing of a machine and judges nothing."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from edge_runtime.doctor import facts
from edge_runtime.doctor.machine import Machine

DEFAULTS = "-"
"""Instead of the settings' path: they could not be read in time, and are not tried again."""


class Probe(NamedTuple):
    """The function `name` in the module `place`; gives a `kind` within `seconds`, or is ended."""

    name: str
    place: str
    kind: type[Any]
    seconds: float
    what: str

    def __call__(self, machine: Machine, config: str) -> Any:
        """What it finds; `config` is the path of the settings, empty for the usual one.

        `DEFAULTS` is none at all.
        """
        module = importlib.import_module(f"{__name__}.{self.place}")
        return getattr(module, self.name)(machine, config)


_FILES, _LOADS = 10.0, 60.0  # seconds; CUDA and TensorRT take some of them on a small board

PROBES = (
    Probe("python", "system", facts.Python, _FILES, "Python"),
    Probe("user", "system", facts.User, _FILES, "the user"),
    Probe("system", "system", facts.System, _FILES, "memory and clock"),
    Probe("settings", "settings", facts.Settings, _FILES, "settings, keys and ports"),
    Probe("jetson", "jetson", facts.Jetson, _FILES, "JetPack and power mode"),
    Probe("gpu", "gpu", facts.Gpu, _FILES, "the GPU's driver"),
    Probe("card", "gpu", facts.Card, _LOADS, "CUDA"),
    Probe("packages", "packages", facts.Packages, _LOADS, "packages and their kernels"),
    Probe("tensorrt", "libraries", facts.Loaded, _LOADS, "TensorRT"),
    Probe("pycuda", "libraries", facts.Loaded, _LOADS, "PyCUDA"),
    Probe("onnxruntime", "libraries", facts.Loaded, _LOADS, "onnxruntime"),
    Probe("certificate", "certificate", facts.Certificate, _FILES, "the certificate"),
    Probe("store", "store", facts.Store, 3 * _FILES, "models and engines"),
    Probe("sound", "sound", facts.Sound, _FILES, "sound cards"),
    Probe("inputs", "sound", facts.Inputs, _FILES, "microphones"),
)
