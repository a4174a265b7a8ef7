"""Ports of their own, for dialects whose clients know no path."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from edge_runtime import dialects
from edge_runtime.dialects import Dialect
from edge_runtime.server.address import listen
from edge_runtime.server.conversation import handler
from edge_runtime.server.state import STATE, State


@contextlib.asynccontextmanager
async def own_ports(state: State) -> AsyncIterator[list[web.BaseSite]]:
    """Listen on them inside the context; raises `PortTaken`."""
    sites: list[web.BaseSite] = []
    async with contextlib.AsyncExitStack() as stack:
        for port, dialect in dialects.ports(state.config.dialects).items():
            for socket in listen(state.config.serving.host, port):
                stack.callback(socket.close)
                runner = web.AppRunner(
                    _app(dialect, state), access_log=None, shutdown_timeout=state.limits.linger
                )
                await runner.setup()
                stack.push_async_callback(runner.cleanup)
                sites.append(web.SockSite(runner, socket))
                await sites[-1].start()
        yield sites


def _app(dialect: type[Dialect], state: State) -> web.Application:
    app = web.Application()
    app[STATE] = state
    app.router.add_get("/{path:.*}", handler(dialect))
    return app
