"""Which Jetson this is, what JetPack put on it, and its power mode."""

from __future__ import annotations

import re
from importlib.metadata import distributions
from pathlib import Path

from edge_runtime.doctor.facts import Jetson
from edge_runtime.doctor.machine import Machine
from edge_runtime.power.mode import Modes

STATUS = "/var/lib/dpkg/status"
_OURS = re.compile(
    r"nvidia-l4t-core|nvidia-jetpack|lib(nvinfer|cudnn)[\w-]*|python3-libnvinfer|cuda-(cudart|nvrtc)-[\d-]+"
)
_JTOP = "jetson-stats"


def jetson(machine: Machine, config: str) -> Jetson:
    """From /etc/nv_tegra_release, the device tree, dpkg's list and the files of nvpmodel."""
    release = re.search(
        r"R(\d+) \(release\), REVISION: ([\d.]+)", machine.text("/etc/nv_tegra_release")
    )
    l4t = f"{release[1]}.{release[2]}" if release else ""
    mode = Modes(machine.root, None).now()
    jtop, knows = _jtop(machine.sites(), l4t)
    return Jetson(
        model=machine.text("/proc/device-tree/model"),
        l4t=l4t,
        packages=packages(machine.text(STATUS)),
        jtop=jtop,
        jtop_knows=knows,
        mode="" if mode is None else mode.name,
        share=None if mode is None else mode.gpu_share,
    )


def packages(status: str) -> dict[str, str]:
    """NVIDIA's packages that are installed, of dpkg's list."""
    found = {}
    for entry in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version): (.+)$", entry, re.MULTILINE))
        name = fields.get("Package", "")
        if _OURS.fullmatch(name) and fields.get("Status", "").endswith(" installed"):
            found[name] = fields.get("Version", "")
    return found


def _jtop(sites: list[Path], l4t: str) -> tuple[str, bool]:
    """The version of jetson-stats, and whether its list of releases has this one."""
    for found in distributions(name=_JTOP, path=[str(site) for site in sites]):
        listed = Path(str(found.locate_file("jtop/core/jetson_variables.py")))
        try:
            text = listed.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return found.version, True
        return found.version, not l4t or f'"{l4t}"' in text or f"'{l4t}'" in text
    return "", True
