"""What kind of machine it is, as several judgements want to know it."""

from __future__ import annotations

import re

from edge_runtime.doctor.facts import Capability, Facts

_CAPABILITIES = {"Thor": (11, 0), "Orin": (8, 7), "Xavier": (7, 2), "TX2": (6, 2), "Nano": (5, 3)}
"""By a word of the board's name, the first that fits: "Orin Nano" is an Orin."""


def is_jetson(facts: Facts) -> bool:
    """Whether it is one; the device tree says so also where Jetson Linux does not."""
    jetson = facts.jetson
    return jetson is not None and bool(jetson.l4t or "Jetson" in jetson.model)


def has_gpu(facts: Facts) -> bool:
    """Whether an NVIDIA driver is loaded, not hidden from us, and wanted."""
    gpu = facts.gpu
    return gpu is not None and bool(gpu.nodes) and not gpu.hidden and device(facts) != "cpu"


def device(facts: Facts) -> str:
    """The configured one."""
    return facts.settings.device if facts.settings is not None else "auto"


def capability(facts: Facts) -> Capability | None:
    """As CUDA tells it, else as the board's name does."""
    if facts.card is not None and facts.card.capability is not None:
        return facts.card.capability
    model = facts.jetson.model if facts.jetson is not None else ""
    return next((found for word, found in _CAPABILITIES.items() if word in model), None)


def tensorrt_serves(facts: Facts) -> bool:
    """Whether TensorRT loads: then onnxruntime is only what would come after it."""
    loaded = facts.tensorrt
    return device(facts) in ("auto", "tensorrt") and loaded is not None and bool(loaded.version)


def release(version: str) -> tuple[int, ...]:
    """Its numbers, to compare: (10, 3, 0) of `10.3.0.30-1+cuda12.5` cut to three."""
    numbers = []
    for part in re.split("[-+]", version, maxsplit=1)[0].split(".")[:3]:
        digits = "".join(each for each in part if each.isdigit())
        numbers.append(int(digits or 0))
    return tuple(numbers)


def dotted(found: Capability) -> str:
    """`8.7`."""
    return "{}.{}".format(*found)
