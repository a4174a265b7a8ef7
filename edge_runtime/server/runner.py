"""How an application is run: what of it is logged, and how long a client may take to ask."""

from __future__ import annotations

from aiohttp import web

from edge_runtime.server import logs
from edge_runtime.server.state import State


def runner(app: web.Application, state: State) -> web.AppRunner:
    """A runner of `app`, to be set up; no request is logged with its query, which may be a key."""
    return web.AppRunner(
        app,
        access_log=None,
        logger=logs.requests(),
        # from the connection on, and after each answer: until the next request's last header
        keepalive_timeout=state.config.admitting.header_seconds,
        shutdown_timeout=state.limits.leave,
    )
