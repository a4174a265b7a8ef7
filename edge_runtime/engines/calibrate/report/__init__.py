"""What a calibration did and found: a page for people, and the same as JSON."""

from edge_runtime.engines.calibrate.report.files import HTML, JSON, read, write
from edge_runtime.engines.calibrate.report.page import page
from edge_runtime.engines.calibrate.report.record import (
    Kept,
    Report,
    Seen,
    Sensitivity,
    Table,
    Variant,
)

__all__ = [
    "HTML",
    "JSON",
    "Kept",
    "Report",
    "Seen",
    "Sensitivity",
    "Table",
    "Variant",
    "page",
    "read",
    "write",
]
