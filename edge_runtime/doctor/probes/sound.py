"""Sound cards and microphones."""

from __future__ import annotations

import re

from edge_runtime.doctor.facts import Inputs, Sound
from edge_runtime.doctor.machine import Machine


def sound(machine: Machine, config: str) -> Sound:
    """From /proc/asound and /dev/snd: what records ends in `c`, for capture."""
    cards = re.findall(r"^ *\d+ \[.*?\]: (.+)$", machine.text("/proc/asound/cards"), re.MULTILINE)
    return Sound(
        cards=tuple(cards),
        nodes=tuple(machine.nodes("snd/pcmC*c")),
        member=machine.user().name in machine.members("audio"),
    )


def inputs(machine: Machine, config: str) -> Inputs:
    """Asks the library that microphones are opened with."""
    return machine.inputs()
