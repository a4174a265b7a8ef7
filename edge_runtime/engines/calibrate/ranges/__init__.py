"""How far the values of each tensor reach: seen, chosen, and doubted where they cannot be right."""

from edge_runtime.engines.calibrate.ranges.candidates import METHODS, candidates
from edge_runtime.engines.calibrate.ranges.choose import Range, choose
from edge_runtime.engines.calibrate.ranges.histogram import Histogram
from edge_runtime.engines.calibrate.ranges.observed import Observed
from edge_runtime.engines.calibrate.ranges.suspicion import Suspicion, refuse, suspicious

__all__ = [
    "METHODS",
    "Histogram",
    "Observed",
    "Range",
    "Suspicion",
    "candidates",
    "choose",
    "refuse",
    "suspicious",
]
