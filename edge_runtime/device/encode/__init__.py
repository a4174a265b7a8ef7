"""The encoder in kernels of our own, beside its plan."""

from edge_runtime.device.encode.program import EncodeProgram
from edge_runtime.device.encode.spec import EncodeSpec

__all__ = ["EncodeProgram", "EncodeSpec"]
