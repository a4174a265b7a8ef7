"""`edge-runtime profile` before there is a model: what it asks for, hears and cannot write."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from edge_runtime import cli
from edge_runtime.audio import RATE
from edge_runtime.cli import profile
from edge_runtime.cli.traced import Traced, first
from edge_runtime.errors import StoreUnwritable
from edge_runtime.events import Final, Partial, SpeechEnd
from edge_runtime.runtime.tracing import Recorder
from edge_runtime.runtime.tracing.ranges import Unmarked


class Source:
    """Two seconds in blocks of 0.3 s."""

    name, live, seconds, warnings = "two", True, 2.0, ("odd",)

    def __iter__(self):
        samples = np.arange(2 * RATE, dtype=np.float32)
        return iter(np.split(samples, range(4800, len(samples), 4800)))


def test_it_wants_a_recording_or_a_time():
    done = CliRunner().invoke(cli.app, ["profile"])
    assert done.exit_code == 2
    assert "--seconds" in done.output


@pytest.mark.parametrize(("seconds", "samples"), [(0.5, 8000), (1.2, 19200), (5.0, 32000)])
def test_the_beginning_of_a_source(seconds, samples):
    source = first(Source(), seconds)
    with source:
        heard = np.concatenate(list(source))
    assert heard.tolist() == list(range(samples))
    assert (source.seconds, source.live, source.warnings) == (min(seconds, 2.0), True, ("odd",))


def test_all_of_a_source():
    source = Source()
    assert first(source, None) is source


def test_text_that_arrives_ends_the_wait_for_it():
    recorder = Recorder(Unmarked)
    final = Final(segment=1, turn=1, reason="stop", text="a", start=0, end=1, logprob=0)
    partial = Partial(segment=1, stable="", unstable="a", start=0, end=1)
    with Traced(recorder) as view:
        for event in (SpeechEnd(turn=1, at=1.0), partial, partial, final):
            if event is not final:
                recorder._merged["s1"] = 0.0
            view.show(event)
    assert [span.about["event"] for span in recorder.spans] == ["partial", "partial"]


def test_a_trace_that_cannot_be_written_says_where(tmp_path):
    served = SimpleNamespace(precision="fp32", variant=None)
    runtime = SimpleNamespace(
        model="m", loaded=SimpleNamespace(served=served), device=SimpleNamespace(name="cpu")
    )
    with pytest.raises(StoreUnwritable, match=r"none/trace\.json cannot be written") as caught:
        profile._write(tmp_path / "none" / "trace.json", Recorder(Unmarked), runtime)
    assert "--output" in caught.value.fix
