"""What is wrong with a machine, why, and what mends it: facts first, then judgements."""

from __future__ import annotations

from edge_runtime.doctor.base import Finding, Level
from edge_runtime.doctor.facts import Facts
from edge_runtime.doctor.judgements import judge
from edge_runtime.doctor.survey import Survey

__all__ = ["Facts", "Finding", "Level", "Survey", "judge"]
