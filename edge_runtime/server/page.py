"""The page at `/`: captions in a browser, and what the server does meanwhile."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from aiohttp import web

import edge_runtime
from edge_runtime.server.door import DOORS, Door
from edge_runtime.server.origin import may_enter
from edge_runtime.server.state import STATE

Handler = Callable[[web.Request], Awaitable[web.Response]]

FOLDER = Path(edge_runtime.__file__).parent / "page"

_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}

HEADERS = {
    # Nothing from outside, nothing inline; 'self' covers the WebSocket of the same origin.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    # Kept, but asked for again each time: a newer server has a newer page.
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True)
class File:
    """A file of the page; `tag` changes when its bytes do."""

    body: bytes
    kind: str
    tag: str


def files(folder: Path = FOLDER) -> dict[str, File]:
    """All files of the page, by their names."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in _TYPES:
            body = path.read_bytes()
            tag = hashlib.sha256(body).hexdigest()[:16]
            found[path.name] = File(body, _TYPES[path.suffix], tag)
    return found


def add(app: web.Application, figures: Door) -> None:
    """Serve the page, which tells nothing by itself, to anybody; `figures` guards what it shows.

    The files are read once: a request names one of them or none, and no path.
    """
    show = _shown(files())
    app.router.add_get("/", _for_its_own_name(show))
    app.router.add_get("/page/updates", updates)
    app.router.add_get("/page/{name}", show)
    app[DOORS]["/"] = app[DOORS]["/page/{name}"] = Door(without="anybody")
    app[DOORS]["/page/updates"] = figures


async def updates(request: web.Request) -> web.Response:
    """The last updates, the oldest first: purpose, and seconds of each stage."""
    recent = [asdict(each) for each in request.app[STATE].metrics.recent]
    return web.json_response({"updates": recent}, headers={"Cache-Control": "no-store"})


def _shown(known: Mapping[str, File]) -> Handler:
    async def show(request: web.Request) -> web.Response:
        file = known.get(request.match_info.get("name", "index.html"))
        if file is None:
            return web.Response(status=404, text="There is no such page. Go to /.\n")
        response = web.Response(headers=HEADERS)
        response.etag = file.tag
        if any(tag.value in {file.tag, "*"} for tag in request.if_none_match or ()):
            response.set_status(304)
            return response
        response.content_type, response.charset = file.kind, "utf-8"
        response.body = file.body
        return response

    return show


def _for_its_own_name(show: Handler) -> Handler:
    """Say what is wrong where the guard would refuse all that the page asks for after itself."""

    async def explain(request: web.Request) -> web.Response:
        config = request.app[STATE].config
        origins = (f"http://{request.host}", f"https://{request.host}")  # a proxy may add TLS
        listed, name = config.admitting.listed_origins, config.serving.host
        if any(may_enter(origin, request.host, listed, name) for origin in origins):
            return await show(request)
        text = (
            f"This server does not know itself by the name {request.host[:200]}.\n"
            "Open it by its address, or add this origin, as http://… or https://…, to origins of "
            "[admitting] in its configuration.\n"
        )
        return web.Response(status=403, text=text, headers=HEADERS)

    return explain
