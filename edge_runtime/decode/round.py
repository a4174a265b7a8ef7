"""What a look of the host at a batch found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edge_runtime.decode.update import Hypothesis
from edge_runtime.errors import DeviceError


@dataclass(frozen=True)
class Round:
    """The rows that are `done`, by their number, with what came of them.

    The device is at the next pass already, if there is one. Where that likely ends the batch, it is
    `ending`: the lane could be told what comes after.
    """

    done: Mapping[int, Hypothesis | DeviceError] = field(default_factory=dict)
    ending: bool = False
