"""Figures of a running server for Prometheus, in a registry of their own."""

from __future__ import annotations

from edge_runtime.metrics.base import RuntimeMetrics
from edge_runtime.metrics.batches import BatchMetrics
from edge_runtime.metrics.device import DeviceMetrics
from edge_runtime.metrics.load import LoadMetrics
from edge_runtime.metrics.metrics import CONTENT_TYPE, Cost, Metrics
from edge_runtime.metrics.power import PowerMetrics

__all__ = [
    "CONTENT_TYPE",
    "BatchMetrics",
    "Cost",
    "DeviceMetrics",
    "LoadMetrics",
    "Metrics",
    "PowerMetrics",
    "RuntimeMetrics",
]
