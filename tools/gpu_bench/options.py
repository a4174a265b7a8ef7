"""What a run of the bench is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """`precisions` in the order they are measured, `until` seconds after which no row begins.

    `count` is how often a call is timed. `quick` is the most clips, 0 for all.
    """

    clips: Path
    reference: Path
    model: str = "moonshine-tiny-en"
    device: str = "tensorrt"
    precisions: tuple[str, ...] = ("fp32", "fp16")
    label: str = ""
    json: Path | None = None
    rows: tuple[str, ...] = ()
    quick: int = 0
    count: int = 300
    until: float = 240.0
    silence: float = 60.0
    ort: str = ""
    add: bool = False

    @property
    def on_cpu(self) -> bool:
        return self.device == "cpu"
