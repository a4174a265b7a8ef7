"""Clips for other systems: paced or at once, to their last event, whatever the engine does."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from peering import player
from peering.player import PIECE, RATE, Player, serve


class Loud:
    """Sound is speech; half a second of silence ends it. The text is how many pieces it had."""

    bytes = 42

    def __init__(self, fails: bool = False) -> None:
        self.open = False
        self.fails = fails
        self.calls: list[int] = []

    def begin(self, *, partials: bool) -> None:
        self.partials, self.heard, self.silent, self.open = partials, 0, 0, False
        self.calls.clear()

    def hear(self, samples):
        self.calls.append(len(samples))
        if self.fails:
            raise ValueError("it broke")
        for start in range(0, len(samples), PIECE):
            loud = bool(samples[start : start + PIECE].any())
            self.open = self.open or loud
            self.silent = 0 if loud else self.silent + PIECE
            self.heard += loud
            if self.open and self.silent >= RATE // 2:
                self.open = False
                yield "final", f"{self.heard}"
            elif loud and self.partials:
                yield "partial", f"{self.heard}"

    def end(self):
        if self.open:
            yield "final", f"{self.heard} cut"


@pytest.fixture
def fast(monkeypatch):
    """Nobody waits; gives the seconds that were asked for."""
    slept: list[float] = []
    monkeypatch.setattr(player.time, "sleep", slept.append)
    return slept


def played(engine, pcm, *, paced, enough=0.0, patience=1.0):
    out = io.StringIO()
    Player(engine, out).play(pcm, enough, patience, paced=paced)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def sound(pieces):
    return np.ones(pieces * PIECE, np.float32)


def test_at_once_all_of_it_is_heard_and_nobody_asks_for_partials() -> None:
    engine = Loud()
    final, done = played(engine, sound(7), paced=False)
    assert (final["type"], final["text"], final["segment"]) == ("final", "7", 0)
    assert sum(engine.calls) == 7 * PIECE + RATE
    assert (done["type"], done["bytes"]) == ("done", 42)
    assert done["peak"] > 0


def test_paced_it_ends_once_nothing_is_open_and_enough_was_heard(fast) -> None:
    engine = Loud()
    *said, done = played(engine, sound(3), paced=True, enough=1.2, patience=60.0)
    kinds = [each["type"] for each in said]
    assert kinds[-1] == "final"
    assert set(kinds[:-1]) <= {"partial"}
    assert 12 * PIECE <= sum(engine.calls) < 60 * RATE
    assert done["type"] == "done"
    assert len(fast) >= 11


def test_what_is_open_at_the_end_has_its_final() -> None:
    final, _ = played(Loud(), sound(4), paced=False, patience=0.2)
    assert final["text"] == "4 cut"


def test_segments_are_counted() -> None:
    gap = np.zeros(6 * PIECE, np.float32)
    pcm = np.concatenate([sound(2), gap, sound(1), gap])
    *finals, _ = played(Loud(), pcm, paced=False)
    assert [(each["segment"], each["text"]) for each in finals] == [(0, "2"), (1, "3")]


def test_an_engine_that_fails_ends_it(fast) -> None:
    for paced in (False, True):
        with pytest.raises(ValueError, match="it broke"):
            played(Loud(fails=True), sound(4), paced=paced, enough=60.0, patience=2.0)


def test_requests_are_answered_one_after_the_other(tmp_path, monkeypatch, capsys) -> None:
    lines = []
    for number in (2, 5):
        path = tmp_path / f"{number}.f32"
        path.write_bytes(sound(number).tobytes())
        request = {"audio": str(path), "enough": 0, "patience": 1, "paced": False}
        lines.append(json.dumps(request))
    out = io.StringIO()
    monkeypatch.setattr(player.sys, "stdin", io.StringIO("\n".join(lines)))
    monkeypatch.setattr(player.sys, "stdout", out)
    serve(Loud())
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [each.get("text") for each in told] == ["2", None, "5", None]


def test_the_size_is_that_of_all_files(tmp_path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"123")
    (tmp_path / "c").write_bytes(b"4")
    assert player.size(tmp_path) == 4
