"""What a look of the host at a batch found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edge_runtime.decode.update import Hypothesis
from edge_runtime.errors import DeviceError


@dataclass(frozen=True)
class Round:
    """The rows that are `done`, by their number, with what came of them.

    The device is at the next pass already, if there is one. Where few rows will go on behind that,
    the batch is `ending`: the lane could be told what comes after. What is `left` of a batch that
    was recalled has the drafts with which it goes on another time, by its rows.
    """

    done: Mapping[int, Hypothesis | DeviceError] = field(default_factory=dict)
    ending: bool = False
    left: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
