"""How far a calibration is, for whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable

STEPS = {
    "reading the recordings": 3,
    "writing their texts": 12,
    "looking at channels": 10,
    "choosing what to smooth": 10,
    "counting values": 15,
    "counting values of the hold-out": 7,
    "choosing ranges": 12,
    "measuring groups": 40,
    "trying mixes": 12,
    "judging": 5,
    "timing": 6,
    "writing the report": 5,
}
"""The steps in order, and about how long each takes beside the others."""


class Watch:
    """Hears what happens; this one does nothing with it."""

    def step(self, name: str, done: int, total: int) -> None:
        """So many of the items of a step are done."""

    def said(self, warning: str) -> None:
        """Something that the owner of the recordings should know."""

    def waiting(self) -> None:
        """Another process calibrates the same model."""

    def telling(self, name: str, total: int) -> Callable[[int], None]:
        """For a step that begins: hears how many items are done."""
        self.step(name, 0, total)
        return lambda done: self.step(name, done, total)
