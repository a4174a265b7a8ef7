"""Ports of their own, for dialects whose clients know no path."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from ssl import SSLContext

from aiohttp import web

from edge_runtime import dialects
from edge_runtime.dialects import Dialect
from edge_runtime.server.address import listen
from edge_runtime.server.conversation import handler
from edge_runtime.server.door import DOORS, door_of
from edge_runtime.server.guard import GUARD, Guard
from edge_runtime.server.runner import runner
from edge_runtime.server.state import STATE, State


@contextlib.asynccontextmanager
async def own_ports(
    main: web.Application, context: SSLContext | None
) -> AsyncIterator[list[web.BaseSite]]:
    """Listen on them inside the context, as the main port does.

    Raises `PortTaken`, and `ConfigError` for a port that two of them want.
    """
    state = main[STATE]
    state.config.dialects.check_ports(state.config.serving.port)
    sites: list[web.BaseSite] = []
    async with contextlib.AsyncExitStack() as stack:
        for port, dialect in dialects.ports(state.config.dialects).items():
            for socket in listen(state.config.serving.host, port):
                stack.callback(socket.close)
                running = runner(_app(dialect, state, main[GUARD]), state)
                await running.setup()
                stack.push_async_callback(running.cleanup)
                sites.append(web.SockSite(running, socket, ssl_context=context))
                await sites[-1].start()
        yield sites


def _app(dialect: type[Dialect], state: State, guard: Guard) -> web.Application:
    app = web.Application()
    guard.protect(app)
    app[STATE] = state
    resource = app.router.add_get("/{path:.*}", handler(dialect)).resource
    assert resource is not None
    app[DOORS][resource.canonical] = door_of(dialect)
    return app
