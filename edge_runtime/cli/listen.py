"""`edge-runtime listen`: a small client of the native protocol, with live captions."""

from __future__ import annotations

from typing import Annotated

import typer

from edge_runtime.cli.inputs import open_file, open_microphone, say_warnings
from edge_runtime.events import Start

EXAMPLES = """\
edge-runtime serve &                                 a server on this machine
edge-runtime listen --mic                            captions of a microphone
edge-runtime listen talk.flac                        paced like a microphone
edge-runtime listen --fast --json talk.flac          every event, as fast as it goes
EDGE_RUNTIME_KEY=er_… edge-runtime listen --url wss://jetson.local:8765/v1/stream --mic"""

URL = "ws://127.0.0.1:8765/v1/stream"


def listen(
    file: Annotated[str | None, typer.Argument(metavar="FILE", help="An audio file.")] = None,
    mic: Annotated[bool, typer.Option("--mic", help="Send a microphone.")] = False,
    mic_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which microphone; implies --mic.")
    ] = None,
    url: Annotated[str, typer.Option(metavar="URL", help="The server's stream.")] = URL,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of several, the model [the first].")
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="Send a file as fast as the server takes it.")
    ] = False,
    words: Annotated[bool, typer.Option("--words", help="Add the time of each word.")] = False,
    partials: Annotated[
        bool, typer.Option("--partials", help="Print partials as lines where there is no terminal.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print every event as JSON.")] = False,
    endpoint_ms: Annotated[
        int, typer.Option(min=200, max=10000, help="Silence that ends a turn (ms).")
    ] = 500,
) -> None:
    """Send a file or a microphone to a running server and show live captions."""
    mic = mic or mic_name is not None
    if mic == (file is not None):
        raise typer.BadParameter("name one file, or use --mic")
    from edge_runtime.cli.client import converse
    from edge_runtime.cli.live import open_view

    start = Start(words=words, endpoint_ms=endpoint_ms, model=model)
    view = open_view(as_json=as_json, partials=partials, words=words)
    with open_microphone(mic_name) if file is None else open_file(file) as source:
        converse(url, start, source, view, paced=not (fast or source.live))
        say_warnings(source)
