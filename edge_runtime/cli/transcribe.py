"""`edge-runtime transcribe`: files, a pipe or a microphone to text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edge_runtime.cli.device import Device, say_fallback
from edge_runtime.cli.inputs import PIPE, open_file, open_microphone, open_pipe, say_warnings
from edge_runtime.events import Encoding, Task

if TYPE_CHECKING:
    from edge_runtime.audio.source import Source
    from edge_runtime.cli.output import Format

EXAMPLES = """\
edge-runtime transcribe talk.flac              text, one line a turn
edge-runtime transcribe --words --json *.wav   one JSON object a file
edge-runtime transcribe --srt film.ogg > film.srt
edge-runtime transcribe --vtt -o subs *.wav    a file in subs/ for each
edge-runtime transcribe --mic                  live captions of a microphone
arecord -q -t raw -f S16_LE -r 48000 | edge-runtime transcribe --live --raw-rate 48000 -"""


def transcribe(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Audio files; - reads raw PCM from a pipe."),
    ] = None,
    mic: Annotated[bool, typer.Option("--mic", help="Listen to a microphone, live.")] = False,
    mic_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which microphone; implies --mic.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Show words as they are spoken.")] = False,
    words: Annotated[bool, typer.Option("--words", help="Add the time of each word.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a file; with --live, one an event.")
    ] = False,
    as_srt: Annotated[bool, typer.Option("--srt", help="SubRip subtitles.")] = False,
    as_vtt: Annotated[bool, typer.Option("--vtt", help="WebVTT subtitles.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write a file for each input here."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="A model that was pulled.")
    ] = None,
    device: Device = None,
    language: Annotated[
        str, typer.Option(metavar="CODE", help="What is spoken; found out where it is left out.")
    ] = "",
    task: Annotated[
        Task, typer.Option(help="Or translate to English, if the model can.")
    ] = "transcribe",
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings, as for serve.")
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, help="Without --live: threads inside one call of the model.")
    ] = 1,
    endpoint_ms: Annotated[
        int, typer.Option(min=200, max=10000, help="Silence that ends a turn (ms).")
    ] = 500,
    raw_rate: Annotated[int, typer.Option(help="For -: samples per second.")] = 16000,
    encoding: Annotated[
        Encoding, typer.Option(help="For -: how a sample is written.")
    ] = "pcm_s16le",
    channels: Annotated[int, typer.Option(min=1, max=8, help="For -: channels.")] = 1,
) -> None:
    """Turn files, a pipe or a microphone into text.

    Text goes to standard output, everything else to standard error. A file that
    cannot be read does not stop the others; the exit code is 1 at the end.
    """
    mic = mic or mic_name is not None
    names = files or []
    form = _format(as_json, as_srt, as_vtt)
    _check(names, form, mic=mic, live=live or mic, output=output)

    def opener(name: str) -> Source:
        return open_pipe(encoding, raw_rate, channels) if name == PIPE else open_file(name)

    from edge_runtime.config import load

    settings = load(config, options={"model": model, "device": device})
    if mic or live:
        from edge_runtime.cli.dictate import dictate
        from edge_runtime.cli.live import open_view
        from edge_runtime.runtime import Options, Runtime

        # The microphone records from its opening on, so the model comes first.
        runtime = Runtime(settings)
        say_fallback(runtime.fallback)
        options = Options(
            partials=True, words=words, endpoint_ms=endpoint_ms, language=language, task=task
        )
        with open_microphone(mic_name) if mic else opener(names[0]) as source:
            dictate(runtime, source, options, open_view(as_json=as_json, words=words))
            say_warnings(source)
        return

    from edge_runtime.cli.recordings import transcribe_all
    from edge_runtime.transcribe import Transcriber

    transcriber = Transcriber(
        settings.serving.model,
        device=settings.serving.device,
        config=settings,
        words=words or form in ("srt", "vtt"),
        threads=threads,
        endpoint_ms=endpoint_ms,
        language=language,
        task=task,
    )
    say_fallback(transcriber.fallback)
    if transcribe_all(transcriber, names, opener, form, output):
        raise typer.Exit(1)


def _format(as_json: bool, as_srt: bool, as_vtt: bool) -> Format:
    wanted: list[Format] = []
    wanted += ["json"] if as_json else []
    wanted += ["srt"] if as_srt else []
    wanted += ["vtt"] if as_vtt else []
    if len(wanted) > 1:
        raise typer.BadParameter("choose one of --json, --srt and --vtt")
    return wanted[0] if wanted else "text"


def _check(names: list[str], form: Format, *, mic: bool, live: bool, output: Path | None) -> None:
    """Raises `typer.BadParameter` for options that do not go together."""
    if mic == bool(names):
        raise typer.BadParameter("name files, or - for a pipe, or use --mic")
    if names.count(PIPE) > 1:
        raise typer.BadParameter("- can be read once")
    if live and (len(names) > 1 or form in ("srt", "vtt") or output is not None):
        raise typer.BadParameter("--live and --mic take one source, and give text or --json")
    if form in ("srt", "vtt") and len(names) > 1 and output is None:
        raise typer.BadParameter(f"--{form} of several files needs --output DIR")
    stems = [Path(name).stem for name in names]
    twice = next((stem for stem in stems if stems.count(stem) > 1), None)
    if output is not None and twice is not None:
        raise typer.BadParameter(
            f"two files are called {twice}, and would be one in {output}: do one at a time"
        )
