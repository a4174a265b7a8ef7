"""`edge-runtime calibrate`: make a model smaller by one's own recordings, or say why not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from edge_runtime.cli.options import Model, Settings

EXAMPLES = """\
edge-runtime calibrate moonshine-tiny-en --audio recordings
edge-runtime calibrate --audio recordings --record 600       from the microphone first
edge-runtime calibrate --audio recordings --transcripts texts.tsv --candidate
edge-runtime calibrate --audio recordings --max-wer-increase 0.5 --report page"""

REFUSED = 3
"""How the program ends when nothing was installed because the text got worse."""


def calibrate(
    model: Model = None,
    audio: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Recordings like what the device will hear."),
    ] = None,
    transcripts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What is said in them (.tsv, .csv) [manifest.tsv of the folder, if there].",
        ),
    ] = None,
    record: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=1, max=3600, help="First record so much into the folder."
        ),
    ] = None,
    mic_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which microphone records.")
    ] = None,
    room: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A recording of the place while nobody speaks."),
    ] = None,
    target: Annotated[
        Literal["size", "speed"], typer.Option(help="What is made as small as the gate allows.")
    ] = "size",
    max_wer_increase: Annotated[
        float, typer.Option(metavar="POINTS", min=0, max=100, help="What the text may lose.")
    ] = 0.3,
    holdout: Annotated[
        float,
        typer.Option(metavar="SHARE", min=0.05, max=0.9, help="Of the audio, to judge by."),
    ] = 0.3,
    force: Annotated[
        bool, typer.Option("--force", help="Install what was refused, marked as forced.")
    ] = False,
    candidate: Annotated[
        bool, typer.Option("--candidate", help="Install beside what serves, for a trial.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the report here as well.")
    ] = None,
    config: Settings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one line of JSON.")] = False,
) -> None:
    """Make a model smaller and faster by your own recordings, and refuse when its text gets worse.

    Rounds the model to 8-bit integers where a part of the recordings says that it costs
    nothing, and judges the result by the other part. The exit code is 0 when it was
    installed, 3 when it was refused. Ctrl-C interrupts: the same command goes on from there.
    """
    if audio is None:
        raise typer.BadParameter("name a folder of recordings: --audio DIR")
    from edge_runtime.cli.calibration import show
    from edge_runtime.config import load
    from edge_runtime.engines.calibrate import extra
    from edge_runtime.engines.calibrate.options import Options

    # best before anybody has spoken for ten minutes
    extra.check()
    name = model or load(config).serving.model
    options = Options(
        audio=audio,
        transcripts=transcripts,
        room=room,
        target=target,
        max_wer_increase=max_wer_increase,
        holdout=holdout,
        force=force,
        candidate=candidate,
        report=report,
    )
    try:
        if record is not None:
            _record(audio, record, mic_name)
        installed = show(name, options, as_json=as_json)
    except KeyboardInterrupt:
        less = " without --record" if record is not None else ""
        typer.echo(f"interrupted: the same command{less} goes on where this one stopped", err=True)
        raise typer.Exit(130) from None
    if not installed:
        raise typer.Exit(REFUSED)


def _record(folder: Path, seconds: float, name: str | None) -> None:
    from edge_runtime.cli.inputs import open_microphone
    from edge_runtime.cli.recorder import record

    with open_microphone(name) as source:
        record(source, folder, seconds)
