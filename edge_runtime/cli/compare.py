"""`edge-runtime compare`: models, and other systems, on the same clips in one run."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from edge_runtime.cli.bench import check
from edge_runtime.cli.device import Device
from edge_runtime.cli.options import Manifest, Settings, required

EXAMPLES = """\
edge-runtime compare clips/manifest.tsv --models moonshine-tiny-en,whisper-base
edge-runtime compare --install-peers all                      once, from a checkout
edge-runtime compare clips/manifest.tsv --models moonshine-tiny-en --peers all --quick 12
edge-runtime compare clips/manifest.tsv --models moonshine-tiny-en --markdown table.md"""


def compare(
    manifest: Manifest = None,
    models: Annotated[
        str, typer.Option(metavar="NAME,…", help="Models that were pulled.")
    ] = "moonshine-tiny-en",
    peers: Annotated[
        str, typer.Option(metavar="NAME,…|all", help="Other systems beside them.")
    ] = "",
    quick: Annotated[
        int, typer.Option(min=0, help="Clips whose texts are compared; 0: all that are clean.")
    ] = 0,
    paced: Annotated[
        int, typer.Option(min=0, help="Short clips that are played like a microphone.")
    ] = 8,
    install_peers: Annotated[
        str, typer.Option(metavar="NAME,…|all", help="Put other systems in place, and end.")
    ] = "",
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures here too.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the table here too.")
    ] = None,
    device: Device = None,
    config: Settings = None,
) -> None:
    """Compare models by words, waiting, processor time and memory, on this machine.

    Each is a server of its own, one after the other. A system that is not there, or fails, has a
    row that says so; the exit code is 1 then, 130 after Ctrl-C, which prints what is there.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell's `&` ignores it
    check()
    from rich.console import Console

    from edge_runtime.bench import peer, server
    from edge_runtime.bench.bench import progress
    from edge_runtime.bench.hardware import hardware
    from edge_runtime.bench.manifest import read
    from edge_runtime.bench.models import Comparison, chosen, report, run

    if install_peers:
        for name in _known(install_peers):
            typer.echo(f"{name}: {peer.environment(name).parents[1]}")
        return
    manifest = required(manifest)
    texts, played = chosen(read(manifest), quick, paced)
    options = server.arguments("", device or "", config)
    comparison = Comparison(_listed(models), _known(peers), texts, played, options)
    with progress(Console(stderr=True)) as bars:
        run(comparison, bars)
    machine = hardware()
    paper = Console()
    paper = paper if paper.is_terminal else Console(width=_PAPER)
    paper.print(report.table(comparison))
    paper.print(machine.line(), style="dim", highlight=False)
    if json_file is not None:
        report.write(json_file, report.record(comparison, machine))
    if markdown is not None:
        report.write(markdown, report.markdown(comparison, machine))
    if comparison.interrupted or any(row.failed for row in comparison.rows):
        raise typer.Exit(130 if comparison.interrupted else 1)


_PAPER = 200
"""Columns of the table in a file or a pipe."""


def _known(names: str) -> list[str]:
    """The peers of a list with commas; raises `ConfigError` for one that there is not."""
    from edge_runtime.bench import peer

    found = list(peer.PEERS) if names == "all" else _listed(names)
    for name in found:
        peer.known(name)
    return found


def _listed(names: str) -> list[str]:
    return [name for each in names.split(",") if (name := each.strip())]
