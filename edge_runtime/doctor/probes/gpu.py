"""The GPU: what its driver put under /dev, and what CUDA says of it."""

from __future__ import annotations

import re

from edge_runtime.doctor.facts import Card, Gpu
from edge_runtime.doctor.machine import Machine
from edge_runtime.doctor.probes.settings import configured

_NODES = ("nvidiactl", "nvidia[0-9]*", "nvmap", "nvhost-gpu", "nvhost-ctrl-gpu", "nvgpu/*/*")
_NVIDIA = "0x10de"
_DISPLAY = "0x03"


def gpu(machine: Machine, config: str) -> Gpu:
    """From /dev, /sys/bus/pci and /proc/driver/nvidia."""
    version = re.search(r"(\d+\.\d+(?:\.\d+)?)", machine.text("/proc/driver/nvidia/version"))
    nodes = [node for pattern in _NODES for node in machine.nodes(pattern)]
    visible = machine.environ.get("CUDA_VISIBLE_DEVICES", "all").strip()
    return Gpu(
        nodes=tuple(nodes),
        card=_on_the_bus(machine),
        driver=version[1] if version else "",
        hidden=visible in ("", "-1"),
    )


def _on_the_bus(machine: Machine) -> bool:
    return any(
        machine.text(f"/sys/bus/pci/devices/{device.name}/vendor") == _NVIDIA
        and machine.text(f"/sys/bus/pci/devices/{device.name}/class").startswith(_DISPLAY)
        for device in machine.path("/sys/bus/pci/devices").glob("*")
    )


def card(machine: Machine, config: str) -> Card:
    """Opens the GPU that is configured, where a driver is there at all."""
    if not gpu(machine, config).nodes:
        return Card(trouble="there is no GPU")
    return machine.card(configured(machine, config).computing.index)
