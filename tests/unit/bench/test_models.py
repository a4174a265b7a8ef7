"""Models side by side: what each row says, and that one that fails costs no other its figures."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from edge_runtime.bench import models, peer
from edge_runtime.bench.hardware import hardware
from edge_runtime.bench.manifest import Clip, Manifest
from edge_runtime.bench.models import Comparison, chosen, compare, report, system
from edge_runtime.bench.take import Take
from edge_runtime.errors import DeviceError, ModelMissing

SECONDS = 2.0


def clip(number: int, seconds: float = SECONDS) -> Clip:
    made = Clip(f"c{number}", Path("none.wav"), "THE BOY WENT HOME", "clean")
    pcm = np.zeros(int(16000 * seconds), np.float32)
    pcm[4000:24000] = np.sin(np.arange(20000) / 3) / 2  # speech from 0.25 s to 1.5 s
    made.__dict__["pcm"] = pcm
    return made


@pytest.fixture
def systems(monkeypatch, said):
    """`systems[name]` is the text that a system writes, or what it raises when it is started."""
    texts: dict[str, str | Exception] = {}
    played: dict[str, list[tuple[str, bool]]] = {}

    class Scripted:
        def __init__(self, name: str) -> None:
            self.name, self.said = name, "paper"
            played[name] = []

        async def play(self, clip, *, paced):
            if texts[self.name] == "breaks" and len(played[self.name]) > 2:
                raise DeviceError("it broke", "Mend it.")
            played[self.name].append((clip.name, paced))
            shown = [said.partial(1.0, "", "the")] if paced else []
            arrivals = (*shown, said.final(2.0, texts[self.name]))
            return Take(clip.name, clip.seconds, arrivals, 0.5 if paced else 0.1)

        def memory(self):
            return 3_000_000

        def disk(self):
            return 7_000_000

    @contextlib.asynccontextmanager
    async def started(name, options=()):
        if isinstance(texts[name], Exception):
            raise texts[name]
        yield Scripted(name)

    monkeypatch.setattr(models, "ours", started)
    monkeypatch.setattr(models, "theirs", started)
    texts["played"] = played
    return texts


async def compared(systems, ours, theirs=()) -> Comparison:
    made = Comparison(ours, theirs, (clip(1), clip(2)), (clip(3),))
    steps = []
    await compare(made, lambda name: None, lambda: steps.append(1))
    made.__dict__["stepped"] = len(steps)
    return made


async def test_a_row_has_words_waiting_cost_and_memory(systems) -> None:
    systems["good"], systems["bad"] = "The boy went home.", "The boy home."
    made = await compared(systems, ["good"], ["bad"])
    good, bad = made.rows
    assert (good.wer, bad.wer) == (0.0, 25.0)
    assert (good.ours, bad.ours) == (True, False)
    assert good.finals == pytest.approx([500], abs=40)
    assert good.firsts == pytest.approx([750], abs=40)
    assert good.cpu == pytest.approx(0.5 / SECONDS)
    assert good.whole == pytest.approx(0.1 / SECONDS)
    assert (good.memory, good.disk, good.clips, good.paced) == (3_000_000, 7_000_000, 2, 1)
    assert systems["played"]["good"] == [("c3", False), ("c3", True), ("c1", False), ("c2", False)]
    assert made.stepped == made.steps == 6


async def test_one_that_is_not_there_or_breaks_says_so_and_the_others_go_on(systems) -> None:
    systems |= {
        "absent": ModelMissing("absent is not in the store", "Run: edge-runtime pull absent"),
        "breaks": "breaks",
        "good": "The boy went home.",
    }
    made = await compared(systems, ["absent", "breaks"], ["good"])
    absent, broken, good = made.rows
    assert absent.failed
    assert "edge-runtime pull absent" in absent.said
    assert broken.failed
    assert (broken.clips, broken.paced) == (1, 1), "what was measured until then"
    assert not good.failed
    table = report.markdown(made, hardware())
    assert "| absent | – | – / – |" in table
    assert table.count("\n| ") == 4


async def test_the_report_is_the_same_three_times(systems) -> None:
    systems["good"] = "The boy went home."
    made = await compared(systems, ["good"])
    content = report.record(made, hardware())
    (row,) = json.loads(json.dumps(content))["rows"]
    assert row["system"] == "good"
    assert row["final_ms"]["p50"] == made.rows[0].finals[0]
    assert row["disk_bytes"] == 7_000_000
    assert content["texts"] == ["c1", "c2"]
    page = report.markdown(made, hardware())
    shown = io.StringIO()
    Console(width=200, file=shown).print(report.table(made))
    for told in (page, shown.getvalue()):
        for cell in ("good", "0.250", "0.0500", "3", "7", "paper"):
            assert cell in told.split()


def test_paced_clips_are_short_ones_where_there_are_such() -> None:
    clips = [clip(number, seconds) for number, seconds in enumerate((3.0, 20.0, 4.0, 30.0))]
    texts, paced = chosen(Manifest(Path("m.tsv"), tuple(clips)), 0, 5)
    assert [each.name for each in texts] == ["c0", "c1", "c2", "c3"]
    assert [each.name for each in paced] == ["c0", "c2"]
    texts, paced = chosen(Manifest(Path("m.tsv"), (clips[1],)), 1, 2)
    assert [each.name for each in texts + paced] == ["c1", "c1"]


async def test_a_peer_that_is_not_installed_names_the_command(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ModelMissing, match="edge-runtime compare --install-peers pocketsphinx"):
        async with system.theirs("pocketsphinx"):
            pass
    home = peer.environment_of(peer.known("faster-whisper-base"))
    assert home == peer.environment_of(peer.known("faster-whisper-tiny.en"))
    (home).mkdir(parents=True)
    (home / "complete").touch()
    assert peer.installed("faster-whisper-base")
    assert not peer.installed("moonshine-voice")
