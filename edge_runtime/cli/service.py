"""`edge-runtime service`: the server as a systemd service, from its install to its end."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from edge_runtime.cli.options import group
from edge_runtime.config import load
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import ServiceError
from edge_runtime.systemd import control, units
from edge_runtime.systemd.control import Status

EXAMPLES = """\
sudo edge-runtime service install           user, folders, units; waits until it serves
sudo edge-runtime service install --socket  starts when the first client comes
edge-runtime service status                 ready? where, since when, how much memory
sudo edge-runtime service uninstall --purge with its models, keys and settings"""

service = group("Install the server as a systemd service, remove it, ask how it is.")

HERE = Path("/")
_POLL = 0.25  # s

_Root = Annotated[
    Path, typer.Option(metavar="DIR", help="Prepare the system in this folder; nothing starts.")
]


@service.command()
def install(
    socket: Annotated[
        bool, typer.Option("--socket", help="Start it when the first client comes.")
    ] = False,
    start: Annotated[bool, typer.Option(help="Start it now, and wait until it serves.")] = True,
    folder: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Take the model's files from this folder."),
    ] = None,
    program: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The command that is run [this one].")
    ] = None,
    root: _Root = HERE,
) -> None:
    """Make the service's user and folders, write its units, enable and start it.

    A model that is not in /var/lib/edge-runtime yet is fetched. What is installed already is
    written anew; settings in /etc/edge-runtime are kept.
    """
    control.check_root()
    staged = root != HERE
    if not staged:
        control.check_booted()
    if program is None:
        program = units.this_program()
        units.check_reachable(program)
    for place in units.write(root, program):
        _say(f"wrote {place}")
    control.make_user_and_folders(root)
    control.enable(root, socket=socket)
    _say(f"user {units.USER}, folders and units are there")
    if staged:
        typer.echo(f"installed in {root}: it serves once that is booted, and its model is there")
        return
    control.systemctl("daemon-reload")
    if not start:
        typer.echo("Next: sudo systemctl start edge-runtime")
        return
    _provide(program, folder)
    if socket:
        control.systemctl("start", units.SOCKET)
        typer.echo("Next: edge-runtime listen --mic (the first client starts the server)")
        return
    found = _started()
    typer.echo(f"serving at {found.url}")
    typer.echo(f"Next: edge-runtime listen --mic{_at(found.url)}; edge-runtime service status")


@service.command()
def uninstall(
    purge: Annotated[
        bool | None,
        typer.Option(
            "--purge/--keep", help="Models, keys, settings and the user, too [asks; else kept]."
        ),
    ] = None,
    root: _Root = HERE,
) -> None:
    """Stop the service and remove its units; with --purge all that belongs to it."""
    control.check_root()
    staged = root != HERE
    if not staged:
        control.check_booted()
    if purge is None:
        asked = f"Delete {units.STORE} and {units.CONFIG}, too: models, keys, settings?"
        purge = sys.stdin.isatty() and typer.confirm(asked)
    there = [place.name for place in units.present(root, units.OURS.values())]
    names = [name for name in units.UNITS if name in there]
    if staged:
        if names:
            control.systemctl(f"--root={root}", "disable", "--quiet", *names)
    elif names:
        control.systemctl("disable", "--now", "--quiet", *names)
        with contextlib.suppress(ServiceError):  # none of them has failed
            control.systemctl("reset-failed", *names)
    gone = units.present(root, units.OURS.values())
    if purge:
        gone += units.present(root, [*units.drop_ins(), units.CONFIG, units.STORE])
    for path in gone:
        made = units.made_with_folder(path)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        _say(f"removed {path}")
        if made and not any(path.parent.iterdir()):
            path.parent.rmdir()
    if purge:
        control.remove_user(root)
    if not staged:
        control.systemctl("daemon-reload")
    typer.echo("removed" if gone else "there was nothing to remove")
    if not purge and (kept := units.present(root, [units.CONFIG, units.STORE])):
        typer.echo(f"kept: {' and '.join(map(str, kept))}, and the user {units.USER}")
        typer.echo("Next: edge-runtime service uninstall --purge removes those, too")


@service.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="Write one line of JSON.")] = False,
) -> None:
    """Say how the service is: exit 0 where it is ready, else 3."""
    control.check_booted()
    found = control.status()
    if as_json:
        typer.echo(msgspec.json.encode(found))
    else:
        for line in _told(found):
            typer.echo(line)
    if not found.ready:
        raise typer.Exit(3)


def _told(found: Status) -> list[str]:
    if not found.installed:
        return ["not installed", "Next: sudo edge-runtime service install"]
    lines = [f"{'ready' if found.ready else found.active}{_after(found)}"]
    if found.since and found.ready:
        lines.append(f"since     {found.since}")
    if found.says and found.active != "inactive":
        lines.append(f"says      {found.says}")
    if found.url and found.ready:
        lines.append(f"url       {found.url}")
    if found.ready and found.watchdog:
        lines.append(f"watchdog  {found.watchdog:g} s, last fed {found.fed or 'not yet'}")
    if found.memory_bytes is not None:
        lines.append(f"memory    {found.memory_bytes / 1e6:.0f} MB")
    lines.append(f"at boot   {'yes' if found.enabled else 'no'}")
    if not found.ready:
        lines.append("Next: sudo systemctl restart edge-runtime; journalctl -u edge-runtime")
    return lines


def _after(found: Status) -> str:
    again = f", {found.restarts} restarts" if found.restarts else ""
    return again + (f", it failed: {found.failed}" if found.failed else "")


def _provide(program: Path, folder: Path | None) -> None:
    """The configured models, in the service's store, and all of that its user's."""
    variables = _variables(units.SETTINGS["edge-runtime.env"])
    served = load(environ={**os.environ, **variables}).serving.served
    listing = Store(units.STORE).listing()
    there = {each.recipe.name for each in listing if each.state == "ready"}
    missing = [model for model in served if load_recipe(model).name not in there]
    if missing:
        line = [str(program), "pull", *missing, *(["--from", str(folder)] if folder else [])]
        environ = {**os.environ, "EDGE_RUNTIME_STORE": str(units.STORE)}
        if subprocess.run(line, env=environ, stdout=sys.stderr, check=False).returncode:
            raise ServiceError(
                f"{', '.join(missing)} is not in {units.STORE}, and could not be put there",
                "Do what is said above, then run the same command again.",
            )
    control.make_user_and_folders(HERE)


def _variables(file: Path) -> dict[str, str]:
    """The variables of an environment file, as far as they are ours."""
    text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
    rows = (line.split("=", 1) for line in text.splitlines() if line.startswith("EDGE_RUNTIME_"))
    return {row[0]: row[1].strip("\"' ") for row in rows if len(row) == 2}


def _started() -> Status:
    """Start it, anew where it runs, and say meanwhile what it says. Raises `ServiceError`."""
    said = None
    starting = subprocess.Popen(["systemctl", "restart", units.SERVICE], stderr=subprocess.DEVNULL)
    while starting.poll() is None:
        if (says := control.status().says) and says != said:
            said = says
            _say(said)
        time.sleep(_POLL)
    found = control.status()
    if found.ready:
        return found
    _say(control.last_lines())
    raise ServiceError(
        f"it does not start: {found.failed or found.active}",
        "Its last lines are above, all of them: journalctl -u edge-runtime",
    )


def _at(url: str | None) -> str:
    if url in (None, "http://127.0.0.1:8765"):
        return ""
    assert url is not None
    return f" --url {url.replace('http', 'ws', 1)}/v1/stream"


def _say(line: str) -> None:
    typer.echo(line, err=True)
