"""`edge-runtime profile`: where the time of live captions goes, stage by stage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edge_runtime.cli.device import Device, say_fallback
from edge_runtime.cli.inputs import open_file, open_microphone, say_warnings
from edge_runtime.cli.options import Settings

if TYPE_CHECKING:
    from edge_runtime.runtime import Runtime
    from edge_runtime.runtime.tracing import Recorder

EXAMPLES = """\
edge-runtime profile talk.flac                 a recording, as fast as it goes
edge-runtime profile --seconds 20              the microphone, for so long
nsys profile -t cuda,nvtx edge-runtime profile talk.flac    with the GPU's own account"""


def profile(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A recording [the microphone].")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", min=1, max=600, help="Audio to take in [all of FILE]."),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The trace.")
    ] = Path("trace.json"),
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="A model that was pulled.")
    ] = None,
    device: Device = None,
    config: Settings = None,
) -> None:
    """Write a trace of every stage on host and device, and say where time went.

    The trace has times, sizes and counts, no audio and no text. With the nvtx package
    installed, updates and their stages are ranges in NVIDIA's tools as well.
    """
    if file is None and seconds is None:
        raise typer.BadParameter("name a FILE, or for the microphone --seconds")

    from edge_runtime.cli.dictate import dictate
    from edge_runtime.cli.traced import Traced, first
    from edge_runtime.config import load
    from edge_runtime.runtime import Options, Runtime
    from edge_runtime.runtime.tracing import Recorder

    recorder = Recorder()
    settings = load(config, options={"model": model, "device": device})
    runtime = Runtime(settings, tracer=recorder)
    say_fallback(runtime.fallback)
    with open_microphone(None) if file is None else open_file(file) as source:
        dictate(runtime, first(source, seconds), Options(), Traced(recorder))
        say_warnings(source)
    _write(output, recorder, runtime)
    _say(recorder)
    typer.echo(f"\nwrote {output}: open it at https://ui.perfetto.dev, which keeps it in the")
    typer.echo("browser, or without a network at chrome://tracing")


def _write(output: Path, recorder: Recorder, runtime: Runtime) -> None:
    """Raises `StoreUnwritable`."""
    import msgspec

    from edge_runtime import __version__
    from edge_runtime.errors import StoreUnwritable
    from edge_runtime.runtime.tracing.chrome import document

    about = {
        "edge-runtime": __version__,
        "model": runtime.model,
        "precision": runtime.loaded.served.precision,
        "variant": runtime.loaded.served.variant or "",
    }
    trace = document(recorder.spans, runtime.device.name, about)
    try:
        output.write_bytes(msgspec.json.encode(trace))
    except OSError as error:
        raise StoreUnwritable(
            f"{output} cannot be written: {error.strerror}", "Name another file with --output."
        ) from error


def _say(recorder: Recorder) -> None:
    from edge_runtime.runtime.tracing.spending import spending

    typer.echo(
        f"{'stage':<8}{'where':<8}{'times':>7}{'total s':>10}{'median ms':>11}{'longest ms':>12}"
    )
    for each in spending(recorder.spans):
        typer.echo(
            f"{each.name:<8}{each.place:<8}{each.times:>7}{each.total:>10.3f}"
            f"{1e3 * each.median:>11.2f}{1e3 * each.longest:>12.2f}"
        )
