"""`edge-runtime keys`: who may use a server that other machines reach."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from edge_runtime.cli.options import group
from edge_runtime.config import load
from edge_runtime.server.keys import Keys, default_path

EXAMPLES = """\
edge-runtime keys add phone                     a key, shown once: write it down
edge-runtime keys list                          names and dates; the keys themselves are not kept
edge-runtime keys rm phone                      from now on it opens nothing
EDGE_RUNTIME_KEY=er_… edge-runtime listen --mic --url wss://jetson.local:8765/v1/stream"""

keys = group("Add, list and remove the keys that clients of a server need.")

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is, such as phone.")]
_Json = Annotated[bool, typer.Option("--json", help="Write JSON, one line a key.")]
_Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings, for keys_file [/etc/edge-runtime/config.toml, if there].",
    ),
]


@keys.command()
def add(name: _Name, as_json: _Json = False, config: _Config = None) -> None:
    """Make a key and show it, this once: only its hash is kept."""
    file = _file(config)
    key = file.add(name)
    if as_json:
        typer.echo(msgspec.json.encode({"name": name, "key": key, "file": str(file.path)}))
        return
    typer.echo(key)  # alone on standard output, so that a script can take it
    typer.echo(f"{name}: shown this once; its hash is in {file.path}", err=True)
    typer.echo("next:   EDGE_RUNTIME_KEY=… edge-runtime listen --mic (servers know it)", err=True)


@keys.command("list")
def listing(as_json: _Json = False, config: _Config = None) -> None:
    """Show the names of the keys, and when each was made (UTC)."""
    file = _file(config)
    found = file.all()
    if as_json:
        for key in found:
            typer.echo(msgspec.json.encode({"name": key.name, "created": key.created}))
        return
    if not found:
        typer.echo(f"no keys in {file.path}")
        typer.echo("Next: edge-runtime keys add NAME")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "created"):
        table.add_column(heading, no_wrap=True)
    for key in found:
        table.add_row(key.name, key.created)
    console = Console()
    console.print(table)
    console.print(f"Keys: {file.path}", highlight=False, soft_wrap=True)


@keys.command("rm")
def remove(name: _Name, as_json: _Json = False, config: _Config = None) -> None:
    """Remove a key: a running server cuts off who uses it within seconds."""
    file = _file(config)
    file.remove(name)
    if as_json:
        typer.echo(msgspec.json.encode({"name": name, "removed": True}))
        return
    typer.echo(f"{name}: removed; servers cut off who uses it within seconds")
    if not file.all():
        typer.echo("It was the last: nobody gets into a running server until there is another.")
    typer.echo("Next: edge-runtime keys list, or edge-runtime keys add NAME")


def _file(config: Path | None) -> Keys:
    return Keys(load(config).admitting.keys_file or default_path())
