"""What a session keeps is bounded, what it drops it tells, and it replays bit for bit."""

import gc
import sys
from types import FunctionType, ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.audio import FRAME, RATE
from edge_runtime.config import Config, Listening
from edge_runtime.decode.update import Purpose
from edge_runtime.errors import ConfigError
from edge_runtime.events import Closed, Final, Flushed, Overrun, SpeechEnd, SpeechStart, encode
from edge_runtime.session import Options, Session, fitting, longest, shortest

CAP = Config(listening=Listening(cap_ms=4000, search_ms=1000))


def test_room_is_what_can_be_fed_without_loss(open_client) -> None:
    client = open_client(seconds=4.0, auto=False)
    client.pause(20)
    room = client.session.room
    assert client.session.feed(np.zeros(room, np.float32)) == []
    assert client.session.room == 0
    (overrun,) = client.session.feed(np.zeros(1600, np.float32))
    assert overrun == Overrun(dropped_ms=100)


def test_room_leaves_the_frame_that_a_flush_ended_within(open_client) -> None:
    client = open_client(seconds=4.0, auto=False)
    session = client.session
    client.speak(40)
    session.feed(np.zeros(100, np.float32))
    client.flush()
    client.decode()
    assert session.feed(np.zeros(session.room, np.float32)) == []
    assert len(session.frames()) == FRAME


def test_lost_audio_is_counted_once(open_client) -> None:
    """In small pieces, with nobody listening: what was overwritten, and no more."""
    session = open_client(seconds=4.0).session
    lost = [event for _ in range(60) for event in session.feed(np.zeros(1600, np.float32))]
    assert {event.dropped_ms for event in lost} == {100}
    assert len(lost) == 20


def test_room_returns_when_audio_is_judged_and_decoded(open_client) -> None:
    client = open_client(seconds=8.0, auto=False)
    client.speak(60)
    client.pause(20)
    before = client.session.room
    assert before <= 8 * RATE - 80 * FRAME
    client.decode()
    assert client.session.room > before
    client.pause(200)
    assert client.session.room >= 7 * RATE


def test_an_overrun_says_how_much_and_goes_on(open_client, legal) -> None:
    client = open_client(seconds=8.0, auto=False)
    client.speak(60)
    lost = sum(
        event.dropped_ms
        for _ in range(8)
        for event in client.session.feed(np.ones(RATE, np.float32))
    )
    kept = client.session.ring.oldest
    assert lost == kept * 1000 // RATE
    assert client.session.tally.dropped == kept
    # What comes next is heard where it is: dropped audio counts in its times.
    client.auto = True
    while client.session.due:
        client.events += client.session.heard(0.02)
        client.decode()
    client.spoken.clear()
    client.speak(60)
    client.pause(20)
    legal(client.events)
    assert client.finals[-1].start == pytest.approx(client.spoken[0] / RATE, abs=0.1)
    assert all(update.start >= 0 for update in client.updates)


def test_an_overrun_leaves_nothing_to_decode_until_more_is_heard(open_client) -> None:
    client = open_client(seconds=4.0, auto=False)
    client.speak(60)
    client.session.feed(np.ones(8 * RATE, np.float32))
    assert client.session.wants is None
    while client.session.wants is None:
        client.session.heard(0.9)
    assert client.take().start == client.session.ring.oldest


def test_a_segment_whose_audio_is_gone_ends_empty(open_client, legal) -> None:
    """A device that cannot keep up must not be asked for audio that was overwritten."""
    client = open_client(seconds=4.0, auto=False)
    client.speak(40)
    client.pause(20)
    assert client.session.waiting == 1
    for _ in range(6):
        client.events += client.session.feed(np.zeros(RATE, np.float32))
    assert client.session.wants is None
    assert [(final.text, final.reason) for final in client.finals] == [("", "endpoint")]
    while client.session.due:
        client.events += client.session.heard(0.02)
    client.auto = True
    client.speak(40)
    client.pause(20)
    assert len(client.finals) == 2
    assert client.finals[-1].text != ""
    legal(client.events)


def test_a_final_whose_audio_went_while_it_was_decoded_is_decoded_again(
    open_client, legal, said
) -> None:
    """Nobody knows what the device read: what it made of that is not believed."""
    client = open_client(seconds=4.0, auto=False)
    client.speak(60)
    client.pause(20)
    first = client.take(Purpose.FINAL)
    assert first.start == 0
    lost = 10 * FRAME
    client.events += client.session.feed(np.zeros(client.session.room + lost, np.float32))
    client.answer(first, "x1 x2 x3")
    assert client.finals == []
    again = client.take(Purpose.FINAL)
    # As much to spare as the first lacked, and half as much again.
    assert (again.start, again.end) == (lost + lost * 3 // 2, first.end)
    client.answer(again)
    (final,) = client.finals
    assert (final.text, final.start) == (said(2, 5), again.start / RATE)
    legal(client.events)


def test_a_final_whose_audio_is_all_gone_by_its_result_is_empty(open_client, legal) -> None:
    client = open_client(seconds=4.0, auto=False)
    client.speak(40)
    client.pause(20)
    update = client.take(Purpose.FINAL)
    for _ in range(6):
        client.events += client.session.feed(np.zeros(RATE, np.float32))
    client.answer(update)
    assert [final.text for final in client.finals] == [""]
    assert client.session.wants is None
    legal(client.events)


def test_a_partial_whose_audio_went_while_it_was_decoded_is_dropped(
    open_client, legal, said
) -> None:
    client = open_client(seconds=4.0, auto=False)
    client.speak(60)
    update = client.take(Purpose.PARTIAL)
    client.events += client.session.feed(np.zeros(client.session.room + RATE, np.float32))
    client.answer(update, "x1 x2 x3")
    assert client.partials == []
    client.session.feed(np.zeros(20 * FRAME - client.session.ring.written % FRAME, np.float32))
    while client.session.due:
        client.events += client.session.heard(0.02)
    final = client.take(Purpose.FINAL)
    assert final.start >= client.session.ring.oldest > RATE
    assert final.draft == ()  # nothing of it is left
    client.answer(final)
    assert client.finals[0].text in said(0, 5)
    legal(client.events)


def test_a_speculation_whose_audio_went_is_no_final(open_client, legal, said) -> None:
    client = open_client(seconds=4.0, auto=False)
    client.speak(60)
    client.pause(8)
    update = client.take(Purpose.SPECULATIVE)
    client.pause(20)
    client.events += client.session.feed(np.zeros(client.session.room + 10 * FRAME, np.float32))
    client.answer(update, "x1 x2 x3")
    assert client.finals == []
    client.answer(client.take(Purpose.FINAL))
    assert client.finals[0].text == said(2, 5)
    legal(client.events)


def test_a_speculation_that_nobody_waits_for_costs_later_windows_nothing(
    open_client, legal, said
) -> None:
    """One that speech overtook may be decoded so late that its turn is over and overwritten."""
    client = open_client(seconds=6.0, auto=False)
    client.speak(40)
    client.pause(8)
    late = client.take(Purpose.SPECULATIVE)
    client.speak(40)
    client.pause(20)
    client.answer(client.take(Purpose.FINAL))
    while client.session.ring.holds(late.start + RATE):
        client.pause(1)
    client.answer(late)
    client.speak(60)
    client.pause(20)
    client.session.feed(np.zeros(client.session.room, np.float32))  # full to the brim, no more
    assert client.session.room == 0
    final = client.take(Purpose.FINAL)
    client.answer(final)
    assert [each.text for each in client.finals] == [said(0, 7), said(8, 13)]
    assert not any(isinstance(event, Overrun) for event in client.events)
    legal(client.events)


def test_windows_keep_clear_of_what_will_be_overwritten_next(open_client) -> None:
    """A device too slow for a live source must not decode all of it twice."""
    client = open_client(seconds=6.0, auto=False)
    for _ in range(3):
        client.speak(40)
        client.pause(20)
    updates = []
    while client.session.waiting:
        client.session.feed(np.zeros(client.session.room, np.float32))  # full to the brim
        updates.append(client.take(Purpose.FINAL))
        client.session.feed(np.zeros(10 * FRAME, np.float32))  # what comes while it is decoded
        client.answer(updates[-1])
    assert [update.segment for update in updates] == [1, 1, 2, 3]
    assert [final.text for final in client.finals] == ["w2 w3", "w4 w5 w6 w7", "w8 w9 w10 w11"]


def test_a_long_text_is_believed_when_its_audio_has_gone_since(open_client, said) -> None:
    client = open_client(seconds=6.0, auto=False)
    client.speak(110)
    client.pause(8)
    update = client.take(Purpose.SPECULATIVE)
    client.answer(update)
    client.pause(2)
    client.session.feed(np.zeros(client.session.room + 3 * RATE, np.float32))
    while client.session.due:
        client.events += client.session.heard(0.02)
    (final,) = client.finals
    assert (final.text, final.rejected) == (said(0, 10), None)
    assert final.start == update.start / RATE


def held(session: Session) -> int:
    """Bytes of all that hangs on a session, the model aside."""
    seen = {id(session._reader.model)}
    waiting: list[object] = [session]
    total = 0
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type | ModuleType | FunctionType):
            continue
        seen.add(id(thing))
        total += sys.getsizeof(thing)
        waiting += gc.get_referents(thing)
    return total


def test_an_hour_holds_no_more_than_a_minute(open_client) -> None:
    """Turns of three seconds with pauses of a second and a half: 780 of them."""
    client = open_client(Options(partials=False), auto=False)
    session, turn = client.session, [0.9] * 94 + [0.0] * 50
    samples, sizes = np.zeros(len(turn) * FRAME, np.float32), []
    for _ in range(36_000 // 46):
        session.feed(samples)
        for probability in turn:
            client.events += session.heard(probability)
        client.decode()
        sizes.append(held(session))
        assert len(client.finals) == 1
        client.forget()
    assert session.ring.written > 3500 * RATE
    assert session.ring.capacity == 30 * RATE
    assert max(sizes[13:]) <= max(sizes[:13]) + 500


def test_speech_without_an_end_holds_no_more(open_client) -> None:
    client = open_client(Options(), CAP)
    sizes = []
    for _ in range(120):
        client.speak(31)
        sizes.append(held(client.session))
        client.forget(words=14)
    assert client.session.ring.written > 118 * RATE
    assert max(sizes[20:]) <= max(sizes[:20]) * 1.1


actions = st.lists(
    st.tuples(
        st.sampled_from(["speak", "pause", "take", "answer", "flush", "flood"]), st.integers(1, 60)
    ),
    max_size=40,
)


def play(client, script, seed: int) -> list[bytes]:
    """Do as the script says; answers come late, in any order, and some contradict each other."""
    dice = np.random.default_rng(seed)
    flights = []

    def answer(which: int) -> None:
        update = flights.pop(which % len(flights))
        if dice.random() < 0.3:
            client.answer(update, f"x{dice.integers(3)} w1 w2 w3 w4 w5")
        else:
            client.answer(update)

    for action, count in script:
        if action in ("speak", "pause"):
            getattr(client, action)(count)
        elif action == "flush":
            client.flush()
        elif action == "flood":
            client.events += client.session.feed(np.ones(count * 2000, np.float32))
            while client.session.due:
                client.events += client.session.heard(0.9)
        elif action == "take" and client.session.wants is not None:
            flights.append(client.take())
        elif action == "answer" and flights:
            answer(count)
    client.stop()
    while flights or client.session.wants is not None:
        if client.session.wants is not None:
            flights.append(client.take())
        else:
            answer(0)
    return [encode(event) for event in client.events]


@settings(max_examples=60)
@given(actions, st.integers(0, 1000), st.booleans(), st.sampled_from([9.0, 30.0]))
def test_every_stream_is_legal_ends_and_replays(
    open_client, legal, script, seed: int, partials: bool, seconds: float
) -> None:
    first, second = (
        open_client(Options(partials=partials), CAP, seconds=seconds, auto=False) for _ in "ab"
    )
    log = play(first, script, seed)
    legal(first.events)
    assert isinstance(first.events[-1], Closed)
    assert first.session.closed
    assert len(first.of(Flushed)) == sum(action == "flush" for action, _ in script)
    assert len(first.of(SpeechStart)) == len(first.of(SpeechEnd)) <= len(first.of(Final))
    assert first.session.waiting == 0
    assert play(second, script, seed) == log


@pytest.mark.parametrize(
    ("samples", "cap", "search"),
    [(278_400, 16_000, 4000), (400_000, 16_000, 4000), (150_400, 8000, 4000), (64_000, 2600, 1300)],
)
def test_the_cap_is_what_windows_allow(samples: int, cap: int, search: int) -> None:
    listening = fitting(Config(), samples).listening
    assert (listening.cap_ms, listening.search_ms) == (cap, search)
    assert longest(fitting(Config(), samples)) <= samples


def test_windows_have_a_least_length() -> None:
    assert shortest(Config()) == (2000 + 400 + 1000) * 16
    assert fitting(Config(), shortest(Config())).listening.cap_ms == 2000
    with pytest.raises(ConfigError, match="cap_ms"):
        fitting(Config(), shortest(Config()) - 1)
