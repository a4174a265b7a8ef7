"""The queue between a session and its socket."""

from __future__ import annotations

import asyncio

import pytest

from edge_runtime.errors import ProtocolError
from edge_runtime.events import Final, Flushed, Overrun, Partial, Ready
from edge_runtime.server.outbox import Outbox


def partial(segment, text):
    return Partial(segment=segment, stable="", unstable=text, start=0.0, end=1.0)


def final(segment):
    return Final(
        segment=segment, turn=0, reason="endpoint", text="x", start=0.0, end=1.0, logprob=0.0
    )


READY = Ready(session="s", resume="t", next_sample=0, model="m", device="d", sample_rate=16000)


async def drained(outbox):
    return [(await outbox.take())[0] for _ in range(len(outbox))]


async def test_only_the_newest_partial_of_a_segment_waits():
    outbox = Outbox(10, 0)
    for event in [
        partial(0, "a"),
        partial(0, "b"),
        Overrun(dropped_ms=1),
        partial(0, "c"),
        final(0),
        partial(1, "d"),
        partial(1, "e"),
    ]:
        outbox.put(event)
    events = await drained(outbox)
    assert [getattr(event, "unstable", type(event).__name__) for event in events] == [
        "Overrun",
        "c",
        "Final",
        "e",
    ]
    assert [event.seq for event in events] == [1, 2, 3, 4]


async def test_taking_waits_for_an_event():
    outbox = Outbox(10, 0)
    taking = asyncio.create_task(outbox.take())
    await asyncio.sleep(0)
    assert not taking.done()
    outbox.put(Flushed())
    event, made = await taking
    assert event == Flushed(seq=1)
    assert made > 0


async def test_more_than_it_may_hold_sets_full():
    outbox = Outbox(3, 0)
    for number in range(10):
        outbox.put(final(number))
        assert outbox.full.is_set() == (number >= 3)
    assert len(outbox) == 4


async def test_rewound_events_keep_their_numbers_and_come_first():
    outbox = Outbox(10, 4)
    for number in range(6):
        outbox.put(final(number))
    first = await drained(outbox)
    outbox.put(partial(6, "new"))
    outbox.rewind(3)
    again = await drained(outbox)
    assert again[:3] == first[3:]
    assert again[3].seq == 7
    outbox.rewind(7)
    assert len(outbox) == 0
    outbox.rewind(3)
    assert [event.seq for event in await drained(outbox)] == [4, 5, 6, 7]


async def test_an_old_greeting_is_not_sent_again():
    outbox = Outbox(10, 10)
    outbox.put(READY)
    outbox.put(Flushed())
    await drained(outbox)
    outbox.rewind(0)
    assert await drained(outbox) == [Flushed(seq=2)]


@pytest.mark.parametrize("last_seq", [-1, 1, 7])
async def test_what_is_not_kept_cannot_be_rewound(last_seq):
    outbox = Outbox(10, 4)
    for number in range(6):
        outbox.put(final(number))
    await drained(outbox)
    with pytest.raises(ProtocolError, match="not kept") as caught:
        outbox.rewind(last_seq)
    assert caught.value.code == "resume_gone"
