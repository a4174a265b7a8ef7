"""The `edge-runtime` command: a table of sub-commands, each loaded when it is called.

A command `name` is the function `name` in `edge_runtime/cli/name.py`, annotated for typer; a
group of commands is a `Typer` of that name.
A module may hold `EXAMPLES`: lines that `--help` shows as they are.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from edge_runtime import __version__
from edge_runtime.cli.options import HELP
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.systemd import journal

COMMANDS = {
    "transcribe": "Turn files, a pipe or a microphone into text.",
    "serve": "Serve live speech to text over a WebSocket.",
    "keys": "Add, list and remove the keys of a server's clients.",
    "tls": "Make a certificate that encrypts what clients send.",
    "service": "Install the server as a systemd service, remove it, ask how it is.",
    "listen": "Show live captions from a running server.",
    "pull": "Fetch a model's weights and make its graphs.",
    "build": "Make a model's TensorRT engine for this machine.",
    "calibrate": "Make a model smaller by your own recordings, or refuse to.",
    "models": "List, load and unload the models of a running server.",
    "engines": "List, check, remove, export, import and promote engines.",
    "doctor": "Say what is wrong with this machine, and what mends it.",
    "bench": "Measure accuracy, latency and cost on this machine.",
    "compare": "Compare models, and other systems, on the same clips.",
    "profile": "Write a trace of where the time of captions goes.",
}

EXAMPLES = """\
edge-runtime pull moonshine-tiny-en        fetch the default model, once
edge-runtime transcribe talk.flac          text of a file
edge-runtime transcribe --mic              live captions of a microphone
edge-runtime serve                         ws://127.0.0.1:8765/v1/stream"""


def _load(name: str) -> Any:
    """The real command called `name`, from its own module."""
    module = importlib.import_module(f"{__name__}.{name}")
    command, epilog = getattr(module, name), _verbatim(getattr(module, "EXAMPLES", ""))
    if isinstance(command, typer.Typer):
        group = typer.main.get_command(command)
        group.name, group.epilog = name, epilog
        return group
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(
        name,
        epilog=epilog,
        context_settings=HELP,
    )(command)
    return typer.main.get_command(app)


def _verbatim(examples: str) -> str | None:
    """Lines that the help formatter leaves as they are."""
    return f"Examples:\n\n\b\n{examples}" if examples else None


class Commands(TyperGroup):
    """Lists the commands without importing them, and reports their errors in two lines."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=said) for name, said in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, _load(str(name)), rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except EdgeRuntimeError as error:
            if ctx.params.get("debug"):
                raise
            report(error)
            raise typer.Exit(1) from None


def report(error: EdgeRuntimeError, where: str = "") -> None:
    """Say on standard error what went wrong, and what to do about it.

    `where` goes before a message that does not name it.
    """
    place = f"{where}: " if where not in error.message else ""
    text = f"error: {place}{error.message}"
    if error.fix:
        text += f"\nfix:   {error.fix}"
    typer.echo(journal.marked(text, logging.ERROR) if journal.listens() else text, err=True)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"edge-runtime {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=HELP,
    epilog=_verbatim(EXAMPLES),
)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", envvar="EDGE_RUNTIME_DEBUG", help="Show the traceback of an error."
        ),
    ] = False,
) -> None:
    """Live speech to text on an NVIDIA Jetson, a desktop GPU or any CPU."""


def main() -> None:
    """Run the command line; exits 0, 1 on an error, 2 on wrong usage, 130 on Ctrl-C."""
    try:
        app(prog_name="edge-runtime")
    finally:
        settle_log()


def settle_log() -> None:
    """Let lines of the log that nothing takes any more, as on a full disk, change no exit code."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - for the interpreter's own end
