"""The parts of the bench, each of which can be run alone."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

from edge_runtime.bench.bench import Bench
from edge_runtime.errors import ConfigError, EdgeRuntimeError

# in the order in which they run: a name is the module's, which holds `measure(bench)`
ROWS = {
    "whole": "Word errors of whole-utterance decodes.",
    "streamed": "Word errors, latency, stability and cost, paced like a microphone.",
    "endpoints": "Word errors at endpoints of 300, 500, 700 and 1000 ms.",
    "stop": "Words lost when stop or flush follows the last sample of speech.",
    "same": "The same events in a fresh process, after other clips, beside other clips.",
    "joined": "A chapter without gaps, cut by the length cap.",
    "hour": "Cost and memory over an hour in one stream.",
    "file": "Cost and word errors of a ten-minute file.",
    "ready": "Time until the server is ready.",
    "times": "Word times against forced alignment.",
    "streams": "How many streams at once keep their finals in time; only when named, or with auto.",
}
_NAMED = {"streams"}
_OF_CLEAN_SPEECH = ROWS.keys() - {"streamed", "ready"}


def chosen(rows: Sequence[str]) -> list[str]:
    """The rows of that name, in their order; when none is named, all but those of hours.

    Raises `ConfigError`.
    """
    unknown = [row for row in rows if row not in ROWS]
    if unknown:
        raise ConfigError(f"no row is called {unknown[0]}", f"Choose from: {', '.join(ROWS)}.")
    return [row for row in ROWS if row in (rows or ROWS.keys() - _NAMED)]


def measure(bench: Bench, rows: Sequence[str], began: Callable[[str], None]) -> None:
    """Run the rows into `bench.figures`; a row that fails is noted, and the next one runs.

    Ctrl-C ends the run and leaves what was measured; `began` hears each row's name.
    """
    for row in rows:
        began(row)
        try:
            if row in _OF_CLEAN_SPEECH and not bench.manifest.clean:
                raise ConfigError(
                    f"{bench.manifest.path} has no clean speech",
                    "Add clips with a transcript that are neither noisy nor non-speech.",
                )
            importlib.import_module(f"{__name__}.{row}").measure(bench)
        except EdgeRuntimeError as error:
            bench.failed[row] = str(error)
        except KeyboardInterrupt:
            bench.interrupt()
        if bench.interrupted():
            return
