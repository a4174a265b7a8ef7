"""The server: an aiohttp application, from bound sockets to the last `closed`."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiohttp import web

from edge_runtime.config import Config
from edge_runtime.metrics import Metrics
from edge_runtime.server import admin, health, page, routes, tls
from edge_runtime.server.address import MAIN, listen, url
from edge_runtime.server.announcement import announced
from edge_runtime.server.base import Limits, Runtime
from edge_runtime.server.conversation import handler
from edge_runtime.server.deadline import BACKLOG, HUNG, Deadline
from edge_runtime.server.door import DOORS, Door, door_of
from edge_runtime.server.guard import GUARD, Guard
from edge_runtime.server.keys import Keys, default_path
from edge_runtime.server.lookout import Lookout
from edge_runtime.server.native import PATH, Native
from edge_runtime.server.parking import Parking
from edge_runtime.server.ports import own_ports
from edge_runtime.server.profiling import profiled
from edge_runtime.server.report import Report
from edge_runtime.server.runner import runner
from edge_runtime.server.state import STATE, State
from edge_runtime.server.tcp import plain_ports
from edge_runtime.systemd.manager import Manager
from edge_runtime.systemd.sockets import holds

__all__ = ["Limits", "State", "create_app", "hosting", "serve"]


def create_app(
    config: Config, metrics: Metrics, limits: Limits | None = None, store: Path | None = None
) -> web.Application:
    """The application, not ready until its state has a runtime."""
    app = web.Application()
    admitting = config.admitting
    guard = Guard(config, metrics, Keys(admitting.keys_file or default_path()))
    guard.protect(app)
    app.cleanup_ctx.append(guard.watch)
    app[STATE] = State(
        config=config,
        metrics=metrics,
        limits=limits or Limits(hello=admitting.start_seconds),
        store=store,
        parking=Parking(config.serving.resume_seconds, metrics),
    )
    app.router.add_get(PATH, handler(Native))
    app[DOORS][PATH] = door_of(Native)
    routes.add(app, config.dialects)
    app.router.add_get("/healthz", health.healthz)
    app.router.add_get("/readyz", health.readyz)
    app.router.add_get("/metrics", health.metrics)
    app[DOORS]["/healthz"] = app[DOORS]["/readyz"] = Door(without="anybody")
    figures = Door(without="anybody" if admitting.open_metrics else "local")
    app[DOORS]["/metrics"] = figures
    admin.add(app)
    page.add(app, figures)
    return app


@contextlib.asynccontextmanager
async def hosting(
    app: web.Application, load: Callable[[], Runtime]
) -> AsyncIterator[tuple[str, Runtime]]:
    """Serve inside the context: gives the URL and the runtime once it is warm.

    Sockets are bound first, so that a taken port fails before a model is loaded; until it is,
    /readyz says 503. At the end nobody is let in any more and every session is finalised.
    Raises `PortTaken`, `ConfigError` for an address that is open to everybody by mistake or a
    certificate that cannot be used, and whatever `load` raises.
    """
    state = app[STATE]
    serving = state.config.serving
    app[GUARD].may_listen()
    certificate = tls.certificate(state.config.admitting)
    context = certificate.context if certificate else None
    if certificate is not None:
        app.cleanup_ctx.append(certificate.watch)
        state.renew = certificate.refresh
    held = holds(MAIN)  # then clients wait in systemd's queue, instead of being sent away
    sockets = listen(serving.host, serving.port, MAIN)
    running = runner(app, state)
    try:
        await running.setup()
        sites: list[web.BaseSite] = [
            web.SockSite(running, socket, ssl_context=context) for socket in sockets
        ]
        for site in [] if held else sites:
            await site.start()
        async with own_ports(app, context) as others, plain_ports(app) as plain:
            runtime = await asyncio.to_thread(load)
            async with runtime.serving():
                state.runtime = runtime
                for site in sites if held else []:
                    await site.start()
                try:
                    async with announced(plain, state.config.dialects.wyoming_announce):
                        yield url(sockets, secure=context is not None), runtime
                finally:
                    state.closing = True
                    for site in [*sites, *others]:
                        await site.stop()
                    for listener in plain:
                        await listener.stop()
                    await state.parking.finish(state.limits.grace)
    finally:
        await running.cleanup()
        state.runtime = None  # aiohttp remembers applications, and a model is large
        for socket in sockets:
            socket.close()


async def serve(
    config: Config,
    load: Callable[[], Runtime],
    metrics: Metrics,
    ready: Callable[[str, Runtime], Any],
    store: Path | None = None,
    deadline: Deadline | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or a device that hangs; `ready` gets the URL and the runtime.

    What systemd wants to know of it, it is told: see `Report`. SIGHUP takes a renewed
    certificate at once. The end sets the `deadline` of the process, where one is given.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    app = create_app(config, metrics, store=store)
    manager = Manager()
    state = app[STATE]
    report = Report(manager, state)

    def stop(code: int = 0) -> None:
        if code == HUNG:
            state.limits = replace(state.limits, grace=state.limits.grace + BACKLOG)
        stopped.set()
        if deadline is not None:
            deadline.set(code)

    for number, act in (
        (signal.SIGTERM, stop), (signal.SIGINT, stop), (signal.SIGHUP, report.reload),
    ):  # fmt: skip
        loop.add_signal_handler(number, act)
    lookout = Lookout(config.recovering.hang_seconds, manager.watchdog, lambda: stop(HUNG))
    async with contextlib.AsyncExitStack() as hosted:
        hosted.enter_context(profiled(config.telemetry))
        async with report.loading():
            where, runtime = await hosted.enter_async_context(hosting(app, load))
        ready(where, runtime)
        async with report.serving(where, runtime), lookout.over(runtime):
            await stopped.wait()
