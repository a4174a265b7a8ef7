"""In what form the model was computed that a figure belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Served:
    """`by` is who computed: "server", or "bench" for whole utterances in its own process.

    `variant` is the fingerprint of a calibrated model, `forced` whether its gate had refused it,
    `unused` why the active one is not what served. What is not known is empty: a server may not
    tell it without a key.
    """

    by: str
    model: str = ""
    device: str = ""
    precision: str = ""
    variant: str = ""
    forced: bool = False
    unused: str = ""

    @classmethod
    def told(cls, health: Mapping[str, Any]) -> Served:
        """By a server's `/healthz`."""
        return cls(
            "server",
            str(health.get("model") or ""),
            str(health.get("device") or ""),
            str(health.get("precision") or ""),
            str(health.get("variant") or ""),
            health.get("forced") is True,
            str(health.get("variant_unused") or ""),
        )

    def line(self) -> str:
        """One line for a report."""
        form = self.precision or "unknown precision"
        if self.variant:
            form += f", variant {self.variant}"
        if self.forced:
            form += ", forced"
        if self.unused:
            form += f" (the calibrated model is not used: {self.unused})"
        return f"{self.by}: {self.model or 'unknown model'} on {self.device or 'unknown'}, {form}"

    def record(self) -> dict[str, object]:
        """For a file."""
        return asdict(self)
