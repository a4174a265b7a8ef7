"""A stream on the event loop: room, order, numbering, and readers that are late."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Ring
from edge_runtime.config import Config
from edge_runtime.decode.reading import Model
from edge_runtime.decode.shape import ModelShape
from edge_runtime.decode.tokens import Vocabulary
from edge_runtime.events import Closed, Flushed, Overrun, Partial, SpeechEnd
from edge_runtime.runtime.stream import Stream
from edge_runtime.session import Options, Session

SHAPE = ModelShape(
    decoder_tiles=(1,), decoder_layers=1, width=8, heads=1, padded_head_dim=8, past=128,
    vocabulary=4, begin=1, end=2, tokens_per_second=6.5, kernels=(127, 7, 3), strides=(64, 3, 2),
    audio_seconds=(2.0, 8.0), draft_tokens=(1, 16, 112),
)  # fmt: skip
SECOND = np.zeros(RATE, np.float32)


class Desk:
    """What the runtime does for a stream, one step at a time."""

    def __init__(self, seconds: float) -> None:
        model = Model(SHAPE, Vocabulary(["<unk>", "<s>", "</s>", "\u2581a"]))
        ring = Ring(int(seconds * RATE))
        session = Session("s1", model, Config(), Options(), ring)
        self.changes = 0
        self.stream = Stream(session, 0, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def judge(self, frames: int) -> None:
        """The detector hears nothing in this many frames."""
        for _ in range(frames):
            self.stream.put(self.stream.session.heard(0.01))
        self.stream.control()


@pytest.fixture
def desk() -> Desk:
    return Desk(4.0)


def partial(text: str, segment: int = 1) -> Partial:
    return Partial(segment=segment, stable="", unstable=text, start=0.0, end=1.0)


async def test_feeding_waits_for_room(desk: Desk) -> None:
    feeding = asyncio.create_task(desk.stream.feed(np.tile(SECOND, 6)))
    await asyncio.sleep(0.02)
    assert not feeding.done()
    written = desk.stream.session.ring.written
    assert 3.5 * RATE <= written <= 4 * RATE
    assert desk.changes > 0
    desk.judge(written // 512)
    await asyncio.sleep(0.02)
    assert desk.stream.session.ring.written > written
    while not feeding.done():
        desk.judge(desk.stream.session.due)
        await asyncio.sleep(0)
    assert desk.stream.session.ring.written == 6 * RATE
    assert desk.stream.session.tally.dropped == 0


async def test_a_live_source_does_not_wait(desk: Desk) -> None:
    desk.stream.offer(np.tile(SECOND, 6))
    assert desk.stream.session.ring.written == 6 * RATE
    event = await anext(desk.stream)
    # One message for all that was lost in a row.
    assert event == Overrun(seq=1, dropped_ms=2000)


async def test_what_was_asked_for_comes_after_the_audio_before_it(desk: Desk) -> None:
    await desk.stream.feed(SECOND)
    desk.stream.flush()
    desk.stream.stop()
    feeding = asyncio.create_task(desk.stream.feed(SECOND))
    desk.stream.control()
    assert not desk.stream.finished
    await asyncio.sleep(0.01)
    assert desk.stream.session.ring.written == RATE  # what follows a flush waits for it
    desk.judge(RATE // 512)
    assert desk.stream.finished
    await feeding
    assert [event async for event in desk.stream] == [
        Flushed(seq=1),
        Closed(seq=2, reason="stop", audio_seconds=1.0),
    ]


async def test_a_reader_waits_for_events_and_ends_after_closed(desk: Desk) -> None:
    reading = asyncio.create_task(anext(desk.stream))
    await asyncio.sleep(0.01)
    assert not reading.done()
    desk.stream.put([partial("a")])
    assert (await reading).unstable == "a"
    desk.stream.stop("gone")
    desk.stream.control()
    assert (await anext(desk.stream)).reason == "gone"
    with pytest.raises(StopAsyncIteration):
        await anext(desk.stream)


async def test_a_late_reader_gets_the_newest_of_partials_in_a_row(desk: Desk) -> None:
    end = SpeechEnd(turn=1, at=1.0)
    desk.stream.put([partial("a"), partial("a b")])
    desk.stream.put([partial("a b c"), end, partial("d", 2)])
    desk.stream.put([partial("d e", 2)])
    events = [await anext(desk.stream) for _ in range(3)]
    assert [event.seq for event in events] == [1, 2, 3]
    assert [getattr(event, "unstable", None) for event in events] == ["a b c", None, "d e"]


async def test_a_closed_stream_takes_nothing_in(desk: Desk) -> None:
    desk.stream.stop()
    desk.stream.control()
    await desk.stream.feed(np.tile(SECOND, 9))
    desk.stream.offer(SECOND)
    assert desk.stream.session.ring.written == 0
