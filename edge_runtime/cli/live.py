"""Views of a stream's events: live captions on a terminal, plain lines or JSON elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Protocol

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from edge_runtime import events


class View(Protocol):
    """Where events go; used as a context manager, so that the terminal is left as it was."""

    def __enter__(self) -> View: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def show(self, event: events.Event) -> None: ...


def open_view(*, as_json: bool = False, partials: bool = False, words: bool = False) -> View:
    """JSON lines if asked for; captions if standard output is a terminal; else plain lines.

    `partials` prints partials as lines of their own where there is no terminal.
    """
    if as_json:
        return JsonLines()
    if sys.stdout.isatty():
        return Captions(Console(highlight=False), words)
    return Lines(partials, words)


def timed_words(final: events.Final) -> str:
    """One line a word: start, end (seconds) and text; empty where the final has no words."""
    return "\n".join(f"{w.start:9.2f} {w.end:9.2f}  {w.text}" for w in final.words or ())


def notice(event: events.Event) -> str:
    """What a person should know that is not text; empty for the other events."""
    if isinstance(event, events.Overrun):
        return f"overrun: {event.dropped_ms} ms of audio dropped: the device cannot keep up"
    if isinstance(event, events.Warning):
        return f"warning: {event.message}"
    if isinstance(event, events.Error):
        return f"error: {event.message}\nfix:   {event.fix}"
    return ""


class JsonLines:
    """Every event as one line of JSON."""

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, event: events.Event) -> None:
        typer.echo(events.encode(event))


class Lines:
    """Finals as lines of text; partials too if wanted, as `… stable | unstable`."""

    def __init__(self, partials: bool, words: bool) -> None:
        self._partials = partials
        self._words = words
        self._last = ""

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, event: events.Event) -> None:
        if isinstance(event, events.Final) and event.text:
            typer.echo(event.text)
            if self._words and event.words:
                typer.echo(timed_words(event))
        elif isinstance(event, events.Partial) and self._partials:
            line = f"… {event.stable} | {event.unstable.strip()}"
            if line != self._last:
                typer.echo(line)
            self._last = line
        elif said := notice(event):
            typer.echo(said, err=True)


class Captions:
    """The open segment at the bottom of a terminal, stable words bold; finals scroll up above."""

    def __init__(self, console: Console, words: bool = False) -> None:
        self._console = console
        self._words = words
        self._live = Live(_waiting(), console=console, transient=True, auto_refresh=False)

    def __enter__(self) -> Captions:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.update(Text())
        self._live.__exit__(kind, error, trace)

    def show(self, event: events.Event) -> None:
        if isinstance(event, events.Partial):
            self._update(Text.assemble((event.stable, "bold"), (event.unstable, "dim italic")))
        elif isinstance(event, events.SpeechStart):
            self._update(Text("…", style="dim"))
        elif isinstance(event, events.Final):
            self._final(event)
        elif isinstance(event, events.SpeechEnd):
            self._update(_waiting())
        elif said := notice(event):
            self._console.print(Text(said, style="yellow"))

    def _final(self, final: events.Final) -> None:
        # Printing draws the live line again: without its text, which the final replaces.
        self._update(Text())
        if final.text:
            self._console.print(Text(final.text))
            if self._words and final.words:
                self._console.print(Text(timed_words(final), style="dim"))

    def _update(self, text: Text) -> None:
        self._live.update(text, refresh=True)


def _waiting() -> Text:
    return Text("listening (Ctrl-C stops)", style="dim")
