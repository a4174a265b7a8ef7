"""Decoder steps of single tokens in kernels of our own, beside the plans of the tiles."""

from edge_runtime.device.step.program import StepProgram
from edge_runtime.device.step.spec import StepSpec

__all__ = ["StepProgram", "StepSpec"]
