"""Where time goes, span by span: whoever wants to know is told while a runtime serves."""

from __future__ import annotations

from edge_runtime.runtime.tracing.base import Tracer, Untraced
from edge_runtime.runtime.tracing.choice import open_tracer
from edge_runtime.runtime.tracing.recorder import Recorder

__all__ = ["Recorder", "Tracer", "Untraced", "open_tracer"]
