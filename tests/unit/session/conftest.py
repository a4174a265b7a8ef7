"""A session without a model: speech in frames, a decoder that knows what was said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from edge_runtime.audio import FRAME, RATE
from edge_runtime.audio.ring import Ring
from edge_runtime.config import Config
from edge_runtime.decode.reading import Model
from edge_runtime.decode.shape import ModelShape
from edge_runtime.decode.tokens import Vocabulary
from edge_runtime.decode.update import Cost, Hypothesis, Purpose, Update
from edge_runtime.events import (
    Closed,
    Event,
    Final,
    Flushed,
    Overrun,
    Partial,
    SpeechEnd,
    SpeechStart,
)
from edge_runtime.session import Options, Session

WORD = 10
"""Frames of speech that a word takes."""

WORDS = 600
SHAPE = ModelShape(
    decoder_tiles=(1,), decoder_layers=1, width=8, heads=1, padded_head_dim=8, past=128,
    vocabulary=2 * WORDS + 4, begin=1, end=2, tokens_per_second=6.5,
    kernels=(127, 7, 3), strides=(64, 3, 2),
    audio_seconds=(2.0, 8.0), draft_tokens=(1, 16, 112),
)  # fmt: skip
TOKENS = [
    "<unk>", "<s>", "</s>", ".",
    *(f"\u2581w{number}" for number in range(WORDS)),
    *(f"\u2581x{number}" for number in range(WORDS)),
]  # fmt: skip
MODEL = Model(SHAPE, Vocabulary(TOKENS))


def text(first: int, last: int) -> str:
    """Words `first` … `last` of what is said."""
    return " ".join(f"w{number}" for number in range(first, last + 1))


@dataclass
class Client:
    """Speaks word after word, `WORD` frames each: word n is "wn". Pauses do not count.

    With `auto`, every update is answered at once with the words whose middle lies in it.
    """

    session: Session
    auto: bool = True
    level: Callable[[int], float] = lambda frame: 1.0
    frames: int = 0
    spoken: list[int] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)

    def hear(self, frames: int, probability: float) -> list[Event]:
        """Feed and judge frames one by one; the events that came of it."""
        before = len(self.events)
        for _ in range(frames):
            samples = np.full(FRAME, self.level(self.frames), np.float32)
            self.events += self.session.feed(samples)
            self.frames += 1
            self.probabilities.append(probability)
            while self.session.due:
                assert len(self.session.frames()) == FRAME
                if probability >= 0.5:
                    self.spoken.append(self.session.heard_samples)
                self.events += self.session.heard(probability)
            if self.auto:
                self.decode()
        return self.events[before:]

    def speak(self, frames: int) -> list[Event]:
        return self.hear(frames, 0.95)

    def pause(self, frames: int) -> list[Event]:
        return self.hear(frames, 0.02)

    def flush(self) -> list[Event]:
        return self._after(self.session.flush)

    def stop(self) -> list[Event]:
        return self._after(self.session.stop)

    def _after(self, call: Callable[[], list[Event]]) -> list[Event]:
        before = len(self.events)
        self.events += call()
        if self.auto:
            self.decode()
        return self.events[before:]

    def decode(self) -> list[Event]:
        """Answer all that is wanted now."""
        before = len(self.events)
        while self.session.wants is not None:
            self.answer(self.take())
        return self.events[before:]

    def take(self, purpose: Purpose | None = None) -> Update:
        update = self.session.take()
        assert update is not None
        assert purpose in (None, update.purpose)
        assert update.start < update.end
        self.session.ring.pieces(update.start, update.end)  # its audio is all there
        self.updates.append(update)
        return update

    def answer(self, update: Update, said: str | None = None, **fields: object) -> list[Event]:
        """Accept what the update holds, or `said` in its place."""
        hypothesis = replace(self.hypothesis(update, said), **fields)
        events = self.session.accept(hypothesis)
        self.events += events
        return events

    def hypothesis(self, update: Update, said: str | None = None) -> Hypothesis:
        centres = [
            (number, self.spoken[number * WORD + WORD // 2])
            for number in range((len(self.spoken) + WORD // 2 - 1) // WORD)
        ]
        inside = [(f"w{n}", at) for n, at in centres if update.start <= at < update.end]
        if said is not None:
            inside = [(word, update.start) for word in said.replace(".", " .").split()]
        tokens = [TOKENS.index(word if word == "." else f"\u2581{word}") for word, _ in inside]
        tokens[: len(update.forced)] = update.forced
        count = len(tokens)
        at = [*(at for _, at in inside), *[update.start] * count][:count]
        step = SHAPE.frame_seconds * RATE
        return Hypothesis(
            update, tuple(tokens), (-0.05,) * count, (5.0,) * count,
            tuple(int((sample - update.start) / step) for sample in at),
            ended=True, frame_count=SHAPE.frames(update.end - update.start), cost=Cost(),
        )  # fmt: skip

    def forget(self, words: int = 0) -> None:
        """Let go of what happened, but for the newest words."""
        for log in (self.events, self.updates, self.probabilities):
            log.clear()
        del self.spoken[: max(0, len(self.spoken) // WORD - words) * WORD]

    def of(self, *kinds: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kinds)]

    @property
    def finals(self) -> list[Final]:
        return [event for event in self.events if isinstance(event, Final)]

    @property
    def partials(self) -> list[Partial]:
        return [event for event in self.events if isinstance(event, Partial)]

    def purposes(self) -> list[Purpose]:
        return [update.purpose for update in self.updates]


def check_order(events: list[Event]) -> None:
    """The legal orders of the protocol, and what holds between one event and the next."""
    turn = segment = 0
    speaking = closed = False
    finals = 0
    stable = ""
    at = 0.0
    for event in events:
        assert not closed, f"{event} after closed"
        if isinstance(event, SpeechStart):
            assert not speaking
            assert event.turn == turn + 1
            assert event.segment > segment
            assert event.at >= at
            speaking, turn, segment, finals, stable, at = (
                True, event.turn, event.segment, 0, "", event.at,
            )  # fmt: skip
        elif isinstance(event, Partial | Final):
            assert speaking
            if event.segment != segment:  # after a cut
                assert finals
                assert event.segment > segment
                segment, finals, stable = event.segment, 0, ""
            assert not finals, f"{event} after the final of its segment"
            assert event.start <= event.end
            if isinstance(event, Partial):
                assert event.stable.startswith(stable)
                stable = event.stable
            else:
                assert event.turn == turn
                assert event.text.startswith(stable)
                finals += 1
        elif isinstance(event, SpeechEnd):
            assert speaking
            assert event.turn == turn
            assert event.at >= at
            speaking, at = False, event.at
        elif isinstance(event, Flushed):
            assert not speaking
        elif isinstance(event, Closed):
            assert not speaking
            closed = True
        else:
            assert isinstance(event, Overrun)


@pytest.fixture(scope="session")
def open_client():
    def opened(
        options: Options | None = None, config: Config | None = None, seconds: float = 30.0,
        **fields: object,
    ) -> Client:  # fmt: skip
        ring = Ring(int(seconds * RATE))
        session = Session("s1", MODEL, config or Config(), options or Options(), ring)
        return Client(session, **fields)

    return opened


@pytest.fixture(scope="session")
def legal():
    return check_order


@pytest.fixture
def said():
    return text
