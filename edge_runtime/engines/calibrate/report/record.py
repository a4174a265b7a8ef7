"""All that a report says, and nothing about how it looks."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from edge_runtime.engines.calibrate.gate import Verdict
from edge_runtime.engines.calibrate.ranges import Histogram, Range
from edge_runtime.engines.calibrate.room import Room

BINS = 128
"""Of the histograms that are kept: finer ones cannot be seen."""


class Variant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table: the same model in another precision, on the same hold-out.

    `bytes` are those of the weights, rates percents, `increase`, `low` and `high` points
    against the unquantised model (95 %), times milliseconds of one typical update.
    `missing` says why a variant cannot be had; its figures are None then.
    """

    name: str
    bytes: int | None = None
    wer: float | None = None
    increase: float | None = None
    low: float | None = None
    high: float | None = None
    speechless_words: int | None = None
    encode_ms: float | None = None
    draft_ms: float | None = None
    step_ms: float | None = None
    update_ms: float | None = None
    original: bool = False
    chosen: bool = False
    missing: str = ""


class Sensitivity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What it costs to quantise one group of nodes alone.

    `error` is that of the model's output, relative; `increase` points of word error rate
    where the group came to the final; `bytes` those it saves; `precision` what it got.
    """

    name: str
    error: float
    bytes: int
    precision: str
    increase: float | None = None


class Seen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tensor's magnitudes in bins of equal width from 0 to `end`, and the range it got."""

    name: str
    range: Range
    counts: tuple[int, ...]
    end: float

    @classmethod
    def of(cls, name: str, range_: Range, histogram: Histogram) -> Seen:
        """From what was observed."""
        counts, end = histogram.coarse(BINS)
        return cls(name=name, range=range_, counts=tuple(counts), end=end)


class Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was not quantised as far as the rest, and the measurement that says why."""

    name: str
    precision: str
    why: str


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Any other figures: costs by batch, scales of pages, thresholds. Text or numbers."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]
    note: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One calibration of one model.

    `refused` are reasons besides the verdict's (ranges that do not fit, for instance), and
    `forced` says that the engine was installed in spite of any. There is no date in it: two
    calibrations of the same input give the same bytes.
    """

    model: str
    engine: str
    verdict: Verdict | None
    refused: tuple[str, ...] = ()
    forced: bool = False
    warnings: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    variants: tuple[Variant, ...] = ()
    sensitivity: tuple[Sensitivity, ...] = ()
    ranges: tuple[Seen, ...] = ()
    kept: tuple[Kept, ...] = ()
    room: Room | None = None
    tables: tuple[Table, ...] = ()
    settings: Mapping[str, str] = {}
    versions: Mapping[str, str] = {}
    hardware: str = ""

    @property
    def passed(self) -> bool:
        """Nothing speaks against the engine."""
        return self.verdict is not None and self.verdict.passed and not self.refused

    @property
    def reasons(self) -> tuple[str, ...]:
        """All that speaks against it."""
        return (*self.refused, *(self.verdict.reasons if self.verdict else ()))

    @property
    def original(self) -> Variant | None:
        """The row of the unquantised model."""
        return next((each for each in self.variants if each.original), None)

    @property
    def chosen(self) -> Variant | None:
        """The row of the engine that the report is about."""
        return next((each for each in self.variants if each.chosen), None)
