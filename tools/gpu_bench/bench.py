"""One run: what is loaded, the figures so far, what failed."""

from __future__ import annotations

import json
import sys
import time
import traceback
from datetime import datetime, timezone
from typing import Any

from edge_runtime.bench.figure import Figure, Figures
from edge_runtime.decode.update import Hypothesis
from edge_runtime.errors import DeviceError, DeviceLost, EdgeRuntimeError
from gpu_bench import bed, machine, report
from gpu_bench.bed import Bed
from gpu_bench.options import Options
from gpu_bench.reference import Clips
from gpu_bench.segment import Segment


class Bench:
    """What the rows share. Every figure is printed and saved at once."""

    def __init__(self, options: Options) -> None:
        """Raises `ConfigError` where the clips or the reference are not there."""
        self.options = options
        self.clips = Clips(options.reference, options.clips, options.quick)
        self.figures = Figures()
        self.failed: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.hardware: dict[str, Any] = machine.machine()
        self.kept: list[object] = []
        self._beds: dict[str, Bed] = {}
        self._free: dict[str, list[Hypothesis]] = {}
        self._segments: dict[str, Segment] = {}
        self._broken: dict[str, EdgeRuntimeError] = {}
        self._began = time.perf_counter()
        if options.add and options.json is not None and options.json.is_file():
            self._resume(json.loads(options.json.read_text(encoding="utf-8")))

    # -- what rows measure on

    @property
    def precisions(self) -> tuple[str, ...]:
        """Those to measure; a CPU has float32 only."""
        return ("fp32",) if self.options.on_cpu else self.options.precisions

    def bed(self, precision: str) -> Bed:
        """The model in that precision, loaded and warmed at its first use.

        Where that failed it is not tried again, since each try costs as much.
        """
        if precision in self._broken:
            raise self._broken[precision]
        if precision not in self._beds:
            try:
                made = bed.make(self.options, precision)
            except EdgeRuntimeError as error:
                self._broken[precision] = error
                raise
            self._beds[precision] = made
            self._look(made)
        return self._beds[precision]

    def free(self, precision: str) -> list[Hypothesis]:
        """Every clip decoded from scratch, in the clips' order."""
        if precision not in self._free:
            bed = self.bed(precision)
            self._free[precision] = [bed.decode([self.clips.audio(c)]) for c in self.clips.all]
        return self._free[precision]

    def segment(self, precision: str) -> Segment:
        """The eight seconds that updates are timed on: the same audio in every precision."""
        if precision not in self._segments:
            clip = next(iter(self._segments.values())).clip if self._segments else None
            self._segments[precision] = Segment.choose(self.bed(precision), self.clips, clip)
        return self._segments[precision]

    # -- figures

    def add(
        self, name: str, label: str, value: float | None, unit: str = "", note: str = ""
    ) -> None:
        self.take(Figure(name, label, value, unit, note))

    def take(self, figure: Figure) -> None:
        self.figures.add(figure)
        self.say(report.line(figure))
        self.save()

    def say(self, text: str) -> None:
        """A line for whoever looks on; flushed, as the run may be cut off."""
        print(f"{time.perf_counter() - self._began:6.1f} s  {text}", flush=True)

    @property
    def spent(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self._began

    def fail(self, row: str, error: BaseException) -> None:
        """Note why a row, or a part of one, has no figures."""
        what = str(error) if isinstance(error, EdgeRuntimeError) else repr(error)
        self.failed[row] = what
        self.say(f"{row} FAILED: {what}")
        if not isinstance(error, EdgeRuntimeError):
            traceback.print_exception(error, file=sys.stdout)
        self.save()

    def attempt(self, part: str, measure: Any, *given: Any) -> bool:
        """Whether `measure` went well: where it fails, that is noted and the row goes on.

        Raises `DeviceLost`: after that nothing goes well in this process.
        """
        try:
            measure(*given)
        except DeviceLost:
            raise
        except Exception as error:  # noqa: BLE001 – one figure must not cost the others
            self.fail(part, error)
            return False
        return True

    def needed(self, name: str) -> float:
        """A figure that another is made of; raises `DeviceError` where it is not there."""
        value = self.figures.value(name)
        if value is None:
            raise DeviceError(f"{name} was not measured", "Look why its row failed.")
        return value

    def record(self) -> dict[str, Any]:
        options = self.options
        return {
            "format": 1,
            "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "label": options.label,
            "hardware": self.hardware,
            "reference": str(options.reference),
            "clips": len(self.clips.all),
            "model": options.model,
            "device": options.device,
            "rows": list(self.seconds),
            "seconds": self.seconds,
            "failed": self.failed,
            "figures": report.figures_record(self.figures),
        }

    def save(self) -> None:
        if self.options.json is not None:
            report.write(self.options.json, self.record())

    def _look(self, made: Bed) -> None:
        self.say(
            f"{made.device.name}, {made.precision}: loaded in {made.loading:.1f} s, "
            f"warm in {made.warming:.1f} s, {len(made.runner.lane.graphs)} graphs"
        )
        self.attempt("hardware", self._note_gpu, made)
        self.save()

    def _note_gpu(self, made: Bed) -> None:
        found = machine.gpu(made.device)
        if found:
            gpu = self.hardware.setdefault("gpu", {})
            gpu |= {**found, "clocks_warm": machine.clocks()}

    def _resume(self, record: dict[str, Any]) -> None:
        """Go on with a file: its figures stay but where they are measured again."""
        for figure in report.figures_of(record):
            self.figures.add(figure)
        self.failed |= record["failed"]
        self.seconds |= record["seconds"]
