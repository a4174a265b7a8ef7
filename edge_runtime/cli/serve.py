"""`edge-runtime serve`: live speech to text for every program on the machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from edge_runtime.cli.device import Device, say_fallback
from edge_runtime.cli.options import Settings

if TYPE_CHECKING:
    from edge_runtime.server.base import Runtime

EXAMPLES = """\
edge-runtime serve                                   ws://127.0.0.1:8765/v1/stream
edge-runtime serve --port 9000 --max-sessions 4
edge-runtime serve --config kiosk.toml
edge-runtime serve --model moonshine-tiny-en --model whisper-base   each session names one
edge-runtime serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
edge-runtime serve --canary 0.1                      try a calibrated model on every tenth session
EDGE_RUNTIME_PORT=9000 edge-runtime serve            every key is a variable, too
edge-runtime listen --mic                            a client, in another terminal
curl http://127.0.0.1:8765/healthz                   how it is"""

Level = Literal["debug", "info", "warning", "error"]


def serve(
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Where to listen [127.0.0.1].")
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="0 takes a free one [8765].")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A model that was pulled; several: the first is usual."),
    ] = None,
    device: Device = None,
    config: Settings = None,
    max_sessions: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Sessions at a time [32].")
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Speak TLS with this certificate (PEM).")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its key [in the same file].")
    ] = None,
    no_keys: Annotated[
        bool, typer.Option("--no-keys", help="Ask no client for a key, whoever reaches us.")
    ] = False,
    canary: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="Part of new sessions that the candidate serves, 0 to 1 [0]."
        ),
    ] = None,
    log_level: Annotated[Level, typer.Option(help="What the log tells.")] = "info",
) -> None:
    """Serve live speech to text over a WebSocket.

    Settings come from the file, then from variables EDGE_RUNTIME_…, then from options.
    An address that other machines reach needs a key first: edge-runtime keys add NAME.
    SIGTERM and Ctrl-C finalise every session before the server ends, within 5 s. Where the
    device hangs, it ends with code 70.
    """
    import asyncio

    from edge_runtime.config import load
    from edge_runtime.engines.store import Store
    from edge_runtime.metrics import Metrics
    from edge_runtime.server import serve as run
    from edge_runtime.server.deadline import Deadline
    from edge_runtime.systemd import journal

    journal.start_logging(log_level.upper())
    settings = load(
        config,
        options={
            "host": host,
            "port": port,
            "model": model[0] if model else None,
            "models": tuple(model) if model else None,
            "device": device,
            "max_sessions": max_sessions,
            "admitting.tls_cert": tls_cert and str(tls_cert),
            "admitting.tls_key": tls_key and str(tls_key),
            "admitting.keys": "never" if no_keys else None,
            "canary.share": canary,
        },
    )
    metrics, store = Metrics(), Store()

    def loaded() -> Runtime:
        from edge_runtime.runtime.models import Models

        return Models(settings, store, metrics)

    deadline = Deadline()
    asyncio.run(run(settings, loaded, metrics, _announce, store.root, deadline))
    deadline.lift()
    if deadline.code:
        raise typer.Exit(deadline.code)


def _announce(url: str, runtime: Runtime) -> None:
    """What serves, where, and what to do next; a log that is full is no reason to end."""
    with contextlib.suppress(OSError):
        _say(url, runtime)


def _say(url: str, runtime: Runtime) -> None:
    socket = url.replace("http", "ws", 1) + "/v1/stream"
    say_fallback(runtime.fallback)
    typer.echo(f"serving {runtime.model} on {runtime.device.name}: {socket}", err=True)
    for name, other in list(runtime.models.items())[1:]:
        say_fallback(other.fallback)
        typer.echo(f"   and {name} on {other.device.name}, for who names it", err=True)
    for line in _form(runtime.about):
        typer.echo(line, err=True)
    # what means every address to a listener is none to a client, and in no certificate
    near = socket.replace("//0.0.0.0:", "//localhost:").replace("//[::]:", "//localhost:")
    own = "" if near == "ws://127.0.0.1:8765/v1/stream" else f" --url {near}"
    typer.echo(f"next:   edge-runtime listen --mic{own}   (or a file; Ctrl-C here stops)", err=True)


def _form(about: Mapping[str, Any]) -> Iterator[str]:
    """What there is to know of a model that was calibrated, or of a candidate."""
    if about["variant"]:
        yield (
            f"calibrated to 8-bit integers, variant {about['variant']}"
            f"{': its gate refused it, it was forced' if about['forced'] else ''}"
        )
    if about["variant_unused"]:
        yield f"the calibrated model is not used: {about['variant_unused']}"
    canary = about["canary"]
    if canary is None:
        return
    if canary["ended"] is not None:
        yield f"no candidate is tried: {canary['ended']}"
    else:
        yield f"{canary['share']:.0%} of new sessions go to the candidate {canary['variant']}"
