"""`/healthz`, `/readyz` and `/metrics`: how the server is, for people and for machines."""

from __future__ import annotations

import json
import time
from typing import Any

from aiohttp import web

from edge_runtime import __version__
from edge_runtime.metrics import CONTENT_TYPE
from edge_runtime.server.caller import CALLER, Caller
from edge_runtime.server.outside import without_paths
from edge_runtime.server.state import STATE


async def healthz(request: web.Request) -> web.Response:
    """What runs here: model and its form, device, sessions, a trial; little without a key."""
    state = request.app[STATE]
    serving = state.config.serving
    runtime = state.runtime
    caller = request[CALLER]
    if not caller.known:
        return web.json_response({"status": _status(request), "version": __version__})
    return _told(
        {
            "status": _status(request),
            "version": __version__,
            "model": serving.model if runtime is None else runtime.model,
            "device": serving.device if runtime is None else runtime.device.name,
            "fallback": None if runtime is None else runtime.fallback,
            "lost": None if runtime is None else runtime.lost,
            "uptime": round(time.monotonic() - state.started, 3),
            "sessions": {
                "open": len(state.parking),
                "parked": state.parking.waiting,
                "max": serving.max_sessions,
            },
            "store": str(state.store) if state.store else None,
            "energy_per_audio_hour": _rounded(state.metrics.energy_per_hour),
            **({} if runtime is None else runtime.about),
        },
        caller,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _told(what: dict[str, Any], caller: Caller) -> web.Response:
    """As JSON; where our files are is for programs of this machine."""
    if caller.local:
        return web.json_response(what)
    text = json.dumps({**what, "store": None})
    return web.json_response(text=without_paths(text))


async def readyz(request: web.Request) -> web.Response:
    """200 once sessions can be opened; 503 before, while shutting down, and without a device."""
    status = _status(request)
    if status == "ok":
        return web.json_response({"status": status})
    return web.json_response({"status": status}, status=503, headers={"Retry-After": "1"})


async def metrics(request: web.Request) -> web.Response:
    """All figures in Prometheus' text format."""
    return web.Response(
        body=request.app[STATE].metrics.text(), headers={"Content-Type": CONTENT_TYPE}
    )


def _status(request: web.Request) -> str:
    state = request.app[STATE]
    if state.closing:
        return "closing"
    if state.runtime is None:
        return "loading"
    return "lost" if state.runtime.lost else "ok"
