"""`edge-runtime bench`: accuracy, latency and cost on this machine."""

from __future__ import annotations

import importlib.util
import signal
from pathlib import Path
from typing import Annotated

import typer

from edge_runtime.cli.device import Device
from edge_runtime.cli.options import Manifest, required
from edge_runtime.errors import ConfigError, MissingExtra

PAPER = 150
"""Columns of the table in a file or a pipe."""

EXAMPLES = """\
edge-runtime bench audio/manifest.tsv --rows whole,ready     the clips of a checkout
edge-runtime bench clips/manifest.tsv                        all rows, about two hours
edge-runtime bench clips/manifest.tsv --quick 10             ten clips a row
edge-runtime bench clips/manifest.tsv --rows whole,ready     two rows
edge-runtime bench clips/manifest.tsv --peer moonshine-voice side by side, from a checkout
edge-runtime bench clips/manifest.tsv --json figures.json    figures for a file as well
edge-runtime bench clips/manifest.tsv --streams auto         streams that keep finals in time
edge-runtime bench clips/manifest.tsv --streams 8 --rows streams   what eight of them meet
EDGE_RUNTIME_KEY=er_… edge-runtime bench clips/manifest.tsv --url wss://jetson.local:8765/v1/stream"""


def bench(
    manifest: Manifest = None,
    rows: Annotated[
        str, typer.Option(metavar="ROW,…", help="Only these rows; `list` shows them.")
    ] = "",
    quick: Annotated[int, typer.Option(min=0, help="At most so many clips a row.")] = 0,
    streams: Annotated[
        str,
        typer.Option(
            metavar="N|auto",
            help="Clips at a time in paced rows; auto finds how many streams the machine holds.",
        ),
    ] = "1",
    within: Annotated[
        int, typer.Option(min=1, metavar="MS", help="End of speech to final, p95 of the streams.")
    ] = 900,
    seconds: Annotated[
        int, typer.Option(min=5, help="How long each number of streams is played.")
    ] = 60,
    streams_log: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Prediction, then each number of streams, one a line."),
    ] = Path("streams.jsonl"),
    minutes: Annotated[int, typer.Option(min=3, help="Length of the row hour.")] = 60,
    exclude: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Leave out the recordings named in it, one a line (clips.txt)."
        ),
    ] = None,
    url: Annotated[
        str, typer.Option(metavar="ws://…", help="A running server, instead of our own.")
    ] = "",
    peer: Annotated[
        str, typer.Option(metavar="NAME", help="Another system to measure beside us.")
    ] = "",
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures here too.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every event of the paced clips, one a line."),
    ] = None,
    model: Annotated[str, typer.Option(metavar="NAME", help="A model that was pulled.")] = "",
    device: Device = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For the server under test.")
    ] = None,
) -> None:
    """Measure accuracy, latency and cost on this machine.

    Prints every figure beside its target; Ctrl-C prints what is there. The exit
    code is 1 when a target was missed or a row failed, 130 after Ctrl-C.
    """
    # What a shell starts in the background is told to ignore it; hours must still end at it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    check()
    from rich.console import Console

    from edge_runtime.bench import report
    from edge_runtime.bench.bench import Bench, Crowd, Options, progress
    from edge_runtime.bench.hardware import hardware
    from edge_runtime.bench.manifest import read
    from edge_runtime.bench.peer import PEERS
    from edge_runtime.bench.rows import ROWS, chosen, measure
    from edge_runtime.bench.targets import derive

    if rows == "list":
        for name, said in ROWS.items():
            typer.echo(f"{name:<12}{said}")
        return
    manifest = required(manifest)
    try:
        auto = streams == "auto"
        named = [row.strip() for row in rows.split(",") if row.strip()]
        wanted = chosen(named or (["streams"] if auto else []))
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None
    if peer and peer not in PEERS:
        raise typer.BadParameter(f"no peer is called {peer}. Choose from: {', '.join(PEERS)}.")
    clips = read(manifest)
    if exclude is not None:
        clips = clips.without(_lines(exclude))
    crowd = Crowd(auto, within, seconds, log=streams_log)
    together = 1 if auto else _number(streams)
    options = Options(quick, together, url, peer, minutes, model, device or "", config, crowd)
    console = Console(stderr=True)
    machine = hardware()
    with progress(console) as bars:
        run = Bench(clips, options, bars)
        measure(run, wanted, lambda row: console.print(f"{row}: {ROWS[row]}", style="dim"))
    derive(run.figures)
    paper = Console()
    if not paper.is_terminal:
        paper = Console(width=PAPER)
    paper.print(report.table(run, machine))
    if json_file is not None:
        report.write(json_file, report.record(run, machine, wanted))
    if keep is not None:
        keep.write_bytes(b"".join(take.record() + b"\n" for take in run.takes))
    if report.missed(run) or run.failed or run.interrupted():
        raise typer.Exit(130 if run.interrupted() else 1)


def _number(streams: str) -> int:
    if not streams.isdecimal() or int(streams) < 1:
        raise typer.BadParameter(f"--streams {streams}: give a number from 1 on, or auto.")
    return int(streams)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "Check the path.") from None


def check() -> None:
    """Raises `MissingExtra` where the extra is not installed."""
    for package in ("jiwer", "whisper_normalizer", "pocketsphinx"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(
                f"bench needs {package}, which is not installed",
                "Run: pip install 'edge-runtime[bench]'",
            )
