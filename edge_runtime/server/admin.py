"""`/admin/models`: models come and go while it runs, by programs of the same machine alone."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from aiohttp import web

from edge_runtime.dialects import Dialect
from edge_runtime.errors import (
    ConfigError,
    EdgeRuntimeError,
    MemoryShort,
    ModelMissing,
    NotAdmitted,
    ProtocolError,
    RecipeError,
)
from edge_runtime.server.caller import CALLER
from edge_runtime.server.door import DOORS, Door
from edge_runtime.server.reception import ready
from edge_runtime.server.state import STATE

PATH = "/admin/models"

# The path of a recipe is for who starts the server: here it would read files as the server's user.
_NAME = re.compile(r"(?!.*\.toml$)[a-z0-9][a-z0-9.-]*")
_STATUS = {
    ConfigError: 409, RecipeError: 404, ModelMissing: 404, MemoryShort: 507, ProtocolError: 503,
}  # fmt: skip


@runtime_checkable
class Changing(Protocol):
    """A runtime whose models come and go."""

    @property
    def about(self) -> Mapping[str, Any]:
        """With `models` and what is `loading`."""

    async def load(self, model: str, *, default: bool = False) -> None: ...

    async def unload(self, name: str) -> None: ...


Work = Callable[[Changing, web.Request], Awaitable[None]]


def add(app: web.Application) -> None:
    """Serve it."""
    app.router.add_get(PATH, _handler(_nothing))
    app.router.add_post(PATH + "/{name}", _handler(_load))
    app.router.add_delete(PATH + "/{name}", _handler(_unload))
    for path in (PATH, PATH + "/{name}"):
        app[DOORS][path] = Door()


async def _nothing(runtime: Changing, request: web.Request) -> None:
    """Only tell how all models stand."""


async def _load(runtime: Changing, request: web.Request) -> None:
    """One more, or the default; `?default=true` makes it that."""
    name = request.match_info["name"]
    if not _NAME.fullmatch(name):
        raise RecipeError(
            f"{name[:80]!r} is no name of a model", "See them all: edge-runtime pull --list."
        )
    default = request.query.get("default", "").lower() in {"1", "true"}
    await runtime.load(name, default=default)


async def _unload(runtime: Changing, request: web.Request) -> None:
    """One less, once its sessions are over."""
    await runtime.unload(request.match_info["name"])


def _handler(work: Work) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        try:
            runtime = _runtime(request)
            await work(runtime, request)
        except NotAdmitted:
            raise  # the guard answers
        except EdgeRuntimeError as error:
            return _refused(error)
        about = runtime.about
        return web.json_response({"models": about["models"], "loading": about["loading"]})

    return handle


def _runtime(request: web.Request) -> Changing:
    """Raises `NotAdmitted` for other machines: no client's key may change what all others get."""
    if not request[CALLER].local:
        raise NotAdmitted(
            "not_local",
            "models come and go by programs of the server's own machine alone",
            "Run edge-runtime models there.",
            403,
        )
    runtime = ready(request.app[STATE])
    if not isinstance(runtime, Changing):
        raise ConfigError("this server has one model for good", "Start it by edge-runtime serve.")
    return runtime


def _refused(error: EdgeRuntimeError) -> web.Response:
    said = error
    if not isinstance(said, ProtocolError):
        said = ProtocolError(error.code, error.message, error.fix)
    status = next((each for kind, each in _STATUS.items() if isinstance(error, kind)), 500)
    return web.json_response(Dialect.complaint(said), status=status)
