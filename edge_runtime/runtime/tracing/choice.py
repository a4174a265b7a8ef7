"""Who is told where time goes: nobody, or the collector that settings or variables name."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable, Mapping

from edge_runtime.config import Telemetry
from edge_runtime.errors import MissingExtra
from edge_runtime.runtime.tracing.base import Tracer, Untraced

_log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def open_tracer(
    telemetry: Telemetry,
    about: Callable[[], Mapping[str, str]],
    environ: Mapping[str, str] | None = None,
) -> Tracer:
    """For the collector of the settings, else that of the standard variables, else for nobody.

    Raises `MissingExtra` where the settings name one and the SDK is not installed; variables may
    be meant for other programs, and cost a warning.
    """
    environ = os.environ if environ is None else environ
    if not telemetry.otlp_endpoint and not _named(environ):
        return Untraced()
    if not _installed():
        missing = MissingExtra(
            "the OpenTelemetry SDK is not installed", "Run: pip install 'edge-runtime[otel]'"
        )
        if telemetry.otlp_endpoint:
            raise missing
        _log.warning("no traces are sent: %s", missing)
        return Untraced()
    from edge_runtime.runtime.tracing.otel import Otel

    return Otel(telemetry.otlp_endpoint, about)


def _named(environ: Mapping[str, str]) -> bool:
    """Whether variables ask for traces over OTLP."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environ.get("OTEL_TRACES_EXPORTER", "otlp").strip() != "otlp":
        return False
    return any(environ.get(name, "").strip() for name in ENDPOINTS)


def _installed() -> bool:
    parts = ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter")
    return all(importlib.util.find_spec(part) for part in parts)
