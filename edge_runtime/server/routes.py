"""The paths of all dialects that are switched on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from edge_runtime import dialects
from edge_runtime.config import Dialects
from edge_runtime.server import conversation, uploads
from edge_runtime.server.door import DOORS, door_of


def add(app: web.Application, config: Dialects) -> None:
    """Serve them, to whom the application's guard lets in."""
    for path, dialect in dialects.sockets(config).items():
        app.router.add_get(path, conversation.handler(dialect))
        app[DOORS][path] = door_of(dialect)
    for path, recorded in dialects.uploads(config).items():
        app.router.add_post(path, uploads.handler(recorded))
        app[DOORS][path] = door_of(recorded)
    for (method, path), page in dialects.pages(config).items():
        app.router.add_route(method, path, _shown(page))


def _shown(page: dialects.Page) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def show(request: web.Request) -> web.Response:
        status, said = page(conversation.asked(request), request.match_info.get("name", ""))
        return web.json_response(said, status=status)

    return show
