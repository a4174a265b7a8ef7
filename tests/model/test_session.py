"""Sessions on real speech: the same events however the audio comes, and beside whom."""

from __future__ import annotations

import numpy as np
import pytest

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Ring
from edge_runtime.config import Config
from edge_runtime.events import Closed, Event, Final, Partial, SpeechEnd, SpeechStart
from edge_runtime.session import Options, Session


class Stand:
    """Sessions on one detector and one runner, each update decoded at once."""

    def __init__(self, loaded, runner, rows: int = 4) -> None:
        self.loaded, self.runner = loaded, runner
        self.ears = loaded.ear(rows)

    def open(self, options: Options) -> tuple[Session, int]:
        ring = Ring(30 * RATE)
        return Session("s", self.loaded.model, Config(), options, ring), self.ears.open()

    def feed(self, session: Session, slot: int, samples: np.ndarray) -> list[Event]:
        events = session.feed(samples)
        while session.due:
            ((probability,),) = self.ears.hear([slot], [session.frames()])
            events += session.heard(probability) + self.decode(session)
        return events

    def decode(self, session: Session) -> list[Event]:
        events: list[Event] = []
        while (update := session.take()) is not None:
            audio = session.ring.pieces(update.start, update.end)
            (hypothesis,) = self.runner.run([update], [audio])
            events += session.accept(hypothesis)
        return events

    def play(self, samples: np.ndarray, piece: int, options: Options) -> list[Event]:
        session, slot = self.open(options)
        events: list[Event] = []
        for start in range(0, len(samples), piece):
            events += self.feed(session, slot, samples[start : start + piece])
        events += session.stop() + self.decode(session)
        self.ears.close(slot)
        return events


@pytest.fixture(scope="module")
def stand(loaded, runner) -> Stand:
    return Stand(loaded, runner)


@pytest.fixture(scope="module")
def talk(spoken) -> np.ndarray:
    """Two sentences with a pause of a second between them, and a second after them."""
    return np.concatenate([spoken("1867-154075-0005"), np.zeros(RATE, np.float32)])


QUIET = Options(partials=False, words=True)


@pytest.fixture(scope="module")
def alone(stand, talk) -> list[Event]:
    return stand.play(talk, 512, QUIET)


def test_real_turns(alone, talk) -> None:
    kinds = [type(event) for event in alone]
    assert kinds == [SpeechStart, Final, SpeechEnd, SpeechStart, Final, SpeechEnd, Closed]
    first, second = finals(alone)
    assert [plain(first), plain(second)] == [
        "thats a likely story", "i can show you the tracks",
    ]  # fmt: skip
    for final in (first, second):
        words = final.words
        assert words is not None
        assert " ".join(word.text for word in words) == final.text
        assert all(one.start <= one.end for one in words)
        assert [word.start for word in words] == sorted(word.start for word in words)
        assert words[0].start >= final.start - 0.5
        assert words[-1].end <= final.end + 0.3
        assert all(-0.5 < word.logprob <= 0 for word in words)
    # Where they are said: "story" ends before the pause, "I" begins after it.
    assert first.end == pytest.approx(1.45, abs=0.2)
    assert second.start == pytest.approx(2.3, abs=0.2)
    assert first.words[-1].start == pytest.approx(0.95, abs=0.25)
    assert alone[-1].audio_seconds == round(len(talk) / RATE, 3)


def finals(events: list[Event]) -> list[Final]:
    return [event for event in events if isinstance(event, Final)]


def plain(final: Final) -> str:
    return "".join(c for c in final.text.lower() if c.isalnum() or c == " ")


@pytest.mark.parametrize("piece", [7, 160, 1600, 16_000])
def test_the_size_of_the_pieces_changes_nothing(stand, talk, alone, piece: int) -> None:
    assert stand.play(talk, piece, QUIET) == alone


def test_single_samples_change_nothing(stand, spoken) -> None:
    clip = spoken("1867-154075-0005")[: RATE * 3 // 2]
    assert stand.play(clip, 1, QUIET) == stand.play(clip, len(clip), QUIET)


def test_others_beside_it_change_nothing(stand, loaded, talk, alone) -> None:
    """One detector batch, one runner, three streams that began at other times."""
    offsets = [0, 5_000, 40_000]
    sessions = [stand.open(QUIET) for _ in offsets]
    heard: list[list[Event]] = [[] for _ in offsets]
    for at in range(0, len(talk) + max(offsets), 512):
        due = []
        for row, (offset, (session, _)) in enumerate(zip(offsets, sessions, strict=True)):
            piece = talk[max(0, at - offset) : max(0, at - offset + 512)]
            heard[row] += session.feed(piece)
            due += [row] if session.due else []
        frames = [sessions[row][0].frames() for row in due]
        found = stand.ears.hear([sessions[row][1] for row in due], frames)
        for row, (probability,) in zip(due, found, strict=True):
            heard[row] += sessions[row][0].heard(probability)
        for row, (session, _) in enumerate(sessions):
            heard[row] += stand.decode(session)
    for row, (session, slot) in enumerate(sessions):
        heard[row] += session.stop() + stand.decode(session)
        stand.ears.close(slot)
    assert heard == [alone] * 3


def test_partials_grow_into_the_final(stand, talk) -> None:
    events = stand.play(talk, 1600, Options())
    stable = ""
    partials = 0
    for event in events:
        if isinstance(event, SpeechStart):
            stable, partials = "", 0
        elif isinstance(event, Partial):
            assert event.stable.startswith(stable)
            stable, partials = event.stable, partials + 1
        elif isinstance(event, Final):
            assert event.text.startswith(stable)
            assert partials >= 3
            assert event.alternative is None


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("1867-154075-0005", "tracks"),
        ("1089-134691-0001", "but he could wait no longer"),
        ("7367-86737-0006", "we will disguise ourselves as"),
    ],
)
def test_stop_right_after_the_last_word_loses_nothing(stand, spoken, name, last) -> None:
    clip = spoken(name)
    frames = clip[: len(clip) // 320 * 320].reshape(-1, 320)
    level = 10 * np.log10((frames**2).mean(axis=1) + 1e-12)
    loud = np.flatnonzero(level > np.percentile(level, 95) - 30)[-1] + 1
    events = stand.play(clip[: loud * 320], 1600, Options())
    final = finals(events)[-1]
    assert last in plain(final)
    assert final.reason == "stop"
    # As many words as there are with the silence after them.
    whole = finals(stand.play(np.pad(clip, (0, RATE)), 1600, QUIET))[-1]
    assert len(final.text.split()) == len(whole.text.split())


@pytest.mark.parametrize("samples", [0, 1, 511, 512])
def test_hardly_any_audio(stand, samples: int) -> None:
    events = stand.play(np.ones(samples, np.float32), 512, Options())
    assert events == [Closed(reason="stop", audio_seconds=round(samples / RATE, 3))]
