"""`edge-runtime models`: those of a running server, which come and go while it serves."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.table import Table

from edge_runtime.cli.options import group
from edge_runtime.config import key
from edge_runtime.errors import EdgeRuntimeError, ServerUnreachable

EXAMPLES = """\
edge-runtime models list                            what is served, and to how many
edge-runtime models load whisper-base               beside the others, for who names it
edge-runtime models load whisper-base --default     and for who names none
edge-runtime models unload moonshine-tiny-en        once its sessions are over
EDGE_RUNTIME_KEY=er_… edge-runtime models list      where the server asks for keys"""

models = group("List, load and unload the models of a running server.")

URL = "http://127.0.0.1:8765"
_PATIENCE = 1800.0  # s: graphs may have to be made, and sessions to end

_Name = Annotated[str, typer.Argument(metavar="MODEL", help="Name of a model that was pulled.")]
_Url = Annotated[
    str, typer.Option("--url", metavar="URL", help="The server, on this machine [port 8765].")
]
_Json = Annotated[bool, typer.Option("--json", help="Write what the server answers.")]


@models.command("list")
def listing(url: _Url = URL, as_json: _Json = False) -> None:
    """Show which models a server has, and how many sessions each serves."""
    _show(_ask(url, "GET", ""), as_json=as_json)


@models.command()
def load(
    model: _Name,
    default: Annotated[
        bool, typer.Option("--default", help="Sessions get it that name no model.")
    ] = False,
    url: _Url = URL,
    as_json: _Json = False,
) -> None:
    """Load one more model into a running server; those that it has go on.

    With --default, one that is served already becomes the one for who names none.
    """
    _show(_ask(url, "POST", f"/{model}{'?default=true' if default else ''}"), as_json=as_json)


@models.command()
def unload(model: _Name, url: _Url = URL, as_json: _Json = False) -> None:
    """Let go of a model once its sessions are over; it gets no new ones."""
    _show(_ask(url, "DELETE", f"/{model}"), as_json=as_json)


def _show(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(told))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("model", "device", "in", "sessions", ""):
        table.add_column(heading, no_wrap=heading == "model")
    for each in told["models"]:
        said = ["default"] if each["default"] else []
        said += ["unloading"] if each["state"] != "serving" else []
        said += [f"fell back: {each['fallback']}"] if each["fallback"] else []
        said += [f"lost: {each['lost']}"] if each["lost"] else []
        form = f"{each['precision']} {each['variant'] or ''}".strip()
        table.add_row(each["model"], each["device"], form, str(each["sessions"]), ", ".join(said))
    Console().print(table)
    if told["loading"]:
        typer.echo(f"{told['loading']} is loading")


def _ask(url: str, method: str, path: str) -> dict[str, Any]:
    """What `/admin/models` answers; raises `ServerUnreachable`, and what the server says no by."""
    parts = urlsplit(url if "//" in url else f"//{url}")
    scheme = "https" if parts.scheme in {"https", "wss"} else "http"
    where = f"{scheme}://{parts.netloc}"
    request = urllib.request.Request(f"{where}/admin/models{path}", method=method)
    for name, value in key.shown().items():
        request.add_header(name, value)
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            told: dict[str, Any] = json.load(answer)
            return told
    except urllib.error.HTTPError as error:
        raise _said(error, where) from None
    except (OSError, ValueError) as error:
        raise ServerUnreachable(
            f"no server answers at {where}: {error}",
            "Start one with `edge-runtime serve`, or give its address with --url.",
        ) from error


def _said(error: urllib.error.HTTPError, where: str) -> EdgeRuntimeError:
    try:
        told = json.load(error)
        return EdgeRuntimeError(told["message"], told["fix"])
    except (ValueError, KeyError, TypeError):
        return ServerUnreachable(f"{where} answers {error.code}", "Check --url.")
