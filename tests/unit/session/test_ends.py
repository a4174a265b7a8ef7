"""What ends a turn from outside: flush and stop, with and without speech."""

import numpy as np

from edge_runtime.audio import FRAME, RATE
from edge_runtime.events import Closed, Final, Flushed, SpeechEnd, SpeechStart

SECONDS = FRAME / RATE


def test_flush_in_the_middle_of_a_word(open_client, legal, said) -> None:
    client = open_client()
    client.speak(63)
    events = client.flush()
    assert [type(event) for event in events] == [Final, SpeechEnd, Flushed]
    assert client.finals[0].reason == "flush"
    assert client.finals[0].text == said(0, 5)
    assert client.updates[-1].end == 63 * FRAME
    # Speech goes on: another turn.
    client.speak(57)
    client.pause(20)
    legal(client.events)
    assert client.finals[1].text == said(6, 11)
    assert client.finals[1].turn == 2


def test_flush_takes_the_samples_that_make_no_whole_frame(open_client, legal) -> None:
    client = open_client()
    client.speak(60)
    client.session.feed(np.ones(200, np.float32))
    client.flush()
    assert client.updates[-1].end == 60 * FRAME + 200
    client.speak(60)
    legal(client.events)


def test_flush_in_a_pause_uses_what_is_there(open_client) -> None:
    client = open_client()
    client.speak(60)
    client.pause(8)
    count = len(client.updates)
    events = client.flush()
    assert [type(event) for event in events] == [Final, SpeechEnd, Flushed]
    assert len(client.updates) == count


def test_flush_of_nothing(open_client) -> None:
    client = open_client()
    assert [type(event) for event in client.flush()] == [Flushed]
    client.pause(50)
    assert [type(event) for event in client.flush()] == [Flushed]
    assert client.updates == []


def test_flushed_waits_for_the_finals_before_it(open_client, legal) -> None:
    client = open_client(auto=False)
    client.speak(60)
    assert client.flush() == []
    assert client.flush() == []
    events = client.decode()
    assert [type(event) for event in events] == [Final, SpeechEnd, Flushed, Flushed]
    legal(client.events)


def test_stop_with_speech(open_client, legal, said) -> None:
    client = open_client()
    client.speak(63)
    assert not client.session.closed
    events = client.stop()
    assert [type(event) for event in events] == [Final, SpeechEnd, Closed]
    assert client.finals[0].reason == "stop"
    assert client.finals[0].text == said(0, 5)
    assert events[-1] == Closed(reason="stop", audio_seconds=round(63 * SECONDS, 3))
    assert client.session.closed
    legal(client.events)


def test_stop_without_speech(open_client) -> None:
    client = open_client()
    client.pause(100)
    assert client.stop() == [Closed(reason="stop", audio_seconds=3.2)]
    assert client.session.closed


def test_stop_before_any_audio(open_client) -> None:
    assert open_client().stop() == [Closed(reason="stop", audio_seconds=0.0)]


def test_stop_twice_is_stop_once(open_client) -> None:
    client = open_client(auto=False)
    client.speak(60)
    assert client.stop() == []
    assert client.stop() == []
    assert not client.session.closed
    assert [type(event) for event in client.decode()] == [Final, SpeechEnd, Closed]
    assert client.stop() == []


def test_nothing_follows_closed(open_client, legal) -> None:
    client = open_client(auto=False)
    client.speak(40)
    client.stop()
    client.flush()
    client.decode()
    client.flush()
    assert isinstance(client.events[-1], Closed)
    legal(client.events)


def test_the_reason_of_a_stop_is_told(open_client) -> None:
    (closed,) = open_client().session.stop("idle")
    assert closed.reason == "idle"


def test_audio_after_a_stop_is_not_heard(open_client) -> None:
    client = open_client(auto=False)
    client.speak(60)
    client.stop()
    client.speak(60)
    client.pause(20)
    client.decode()
    assert [type(event) for event in client.events] == [SpeechStart, Final, SpeechEnd, Closed]
    assert client.events[-1].audio_seconds == round(60 * SECONDS, 3)
    client.speak(60)
    assert isinstance(client.events[-1], Closed)
