"""JetPack, the power mode and jetson-stats."""

from __future__ import annotations

from collections.abc import Iterator

from edge_runtime.doctor.base import Finding, error, ok, warning
from edge_runtime.doctor.facts import Facts
from edge_runtime.doctor.judgements.board import is_jetson, release

OLDEST = (36, 4)
"""The Jetson Linux of JetPack 6.1, the first with TensorRT 10.3."""

SLOW = 0.5
"""Part of the GPU's clock below which a power mode is worth a word."""

_JETPACKS = {36: "6", 38: "7.0", 39: "7.2"}
_RENEW = "sudo pip3 install -U jetson-stats && sudo systemctl restart jtop.service"


def jetpack(facts: Facts) -> Iterator[Finding]:
    """Is it one that our graphs parse on, and all of one release."""
    jetson = facts.jetson
    if jetson is None or not is_jetson(facts):
        return
    if not jetson.l4t:
        yield warning(
            "jetpack",
            f"{jetson.model} without Jetson Linux's release file",
            "In a container, or on another system, it cannot be told which JetPack this is.",
            "cat /etc/nv_tegra_release on the board itself",
        )
        return
    found = release(jetson.l4t)
    named = f"L4T {jetson.l4t}"
    if found < OLDEST:
        yield error(
            "jetpack",
            f"{named} is older than JetPack 6.1 (L4T 36.4)",
            "Its TensorRT is older than 10.3 and cannot read our graphs; the CPU still serves.",
            "Bring the board to JetPack 6.2 or later: "
            "https://developer.nvidia.com/embedded/jetpack",
        )
        return
    core = jetson.packages.get("nvidia-l4t-core", "")
    if core and release(core)[:3] != found[:3]:
        yield warning(
            "jetpack",
            f"{named}, yet nvidia-l4t-core is {core}",
            "An update was not finished, or the board was not started again since.",
            "sudo apt-get update && sudo apt-get dist-upgrade && sudo reboot",
        )
        return
    major = _JETPACKS.get(found[0])
    yield ok("jetpack", f"{named}{f' (JetPack {major})' if major else ''}, {jetson.model}")


def power(facts: Facts) -> Iterator[Finding]:
    """The mode is the owner's choice; one that halves the GPU is named."""
    jetson = facts.jetson
    if jetson is None or not jetson.mode:
        return
    share = jetson.share
    if share is not None and share < SLOW:
        yield warning(
            "power",
            f"power mode {jetson.mode} holds the GPU at {share:.0%} of its highest clock",
            "Captions come later than they could, and engines are tuned for this clock.",
            "sudo nvpmodel -p --verbose, then sudo nvpmodel -m NUMBER",
        )
    else:
        yield ok("power", f"mode {jetson.mode}")


def jtop(facts: Facts) -> Iterator[Finding]:
    """jetson-stats, which reads the sensors where `reader` of [power] says so."""
    jetson = facts.jetson
    wanted = facts.settings is not None and facts.settings.reader == "jtop"
    if jetson is None or not (jetson.jtop or wanted):
        return
    if not jetson.jtop:
        yield error(
            "jetson-stats",
            "jetson-stats is not installed, and [power] reader is jtop",
            "The sensors of the board are not read.",
            "pip install 'edge-runtime[jtop]', or reader = \"sysfs\" in [power]",
        )
    elif not jetson.jtop_knows:
        why = f"Its list of releases has no L4T {jetson.l4t}: it shows no JetPack and may misread."
        if wanted:
            fix = f'{_RENEW}; if that is the newest: reader = "sysfs" in [power]'
            yield warning("jetson-stats", f"{jetson.jtop} does not know this L4T", why, fix)
        else:
            said = f"{jetson.jtop} does not know L4T {jetson.l4t}; it is not used (reader = sysfs)"
            yield ok("jetson-stats", said)
    else:
        yield ok("jetson-stats", jetson.jtop)
