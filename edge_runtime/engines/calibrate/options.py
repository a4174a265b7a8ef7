"""What is asked of a calibration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edge_runtime.engines.calibrate.clips import LEAST
from edge_runtime.engines.calibrate.gate import MAX_WER_INCREASE
from edge_runtime.engines.calibrate.search import Target


@dataclass(frozen=True)
class Options:
    """`audio` is a folder of recordings, or one; `least` are the minutes of speech in it.

    `transcripts` is a table; without, what lies beside the recordings is taken. `room` is a
    recording of the place while nobody speaks, or a folder of them. `force` installs in spite
    of a refusal, a `candidate` is installed beside what serves. The report is written into the
    folder `report`, too.
    """

    audio: Path
    transcripts: Path | None = None
    room: Path | None = None
    target: Target = "size"
    max_wer_increase: float = MAX_WER_INCREASE
    holdout: float = 0.3
    force: bool = False
    candidate: bool = False
    report: Path | None = None
    least: float = LEAST
