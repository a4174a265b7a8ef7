"""A turn from its first sound to its endpoint: partials, early finish, late results."""

import numpy as np
import pytest

from edge_runtime.audio import FRAME, RATE
from edge_runtime.decode.update import Purpose
from edge_runtime.events import Final, Partial, SpeechEnd, SpeechStart
from edge_runtime.session import Options

SECONDS = FRAME / RATE


def test_a_turn(open_client, legal, said) -> None:
    client = open_client()
    client.pause(20)
    client.speak(100)
    client.pause(30)
    legal(client.events)
    kinds = [type(event) for event in client.events]
    assert kinds[0] is SpeechStart
    assert set(kinds[1:-2]) == {Partial}
    assert kinds[-2:] == [Final, SpeechEnd]
    start, (final,), end = client.events[0], client.finals, client.events[-1]
    assert (start.turn, start.segment, start.at) == (1, 1, 20 * SECONDS)
    assert (final.turn, final.segment, final.reason) == (1, 1, "endpoint")
    assert final.text == said(0, 9)
    assert final.start == pytest.approx(start.at)
    assert final.end == end.at == pytest.approx(120 * SECONDS)
    assert final.logprob == -0.05
    assert (final.words, final.alternative, final.rejected) == (None, None, None)


def test_partials_show_the_text_so_far(open_client, said) -> None:
    client = open_client()
    client.speak(100)
    assert len(client.partials) >= 8
    for partial in client.partials:
        assert partial.segment == 1
        heard = int(partial.end / SECONDS)
        assert heard <= 100
        assert partial.stable + partial.unstable == said(0, (heard + 4) // 10 - 1)
    # It is known early, and more and more of it is stable.
    assert client.partials[0].end <= 1.0
    assert client.partials[-1].end >= 2.8
    assert len(client.partials[-1].stable.split()) >= 5


def test_the_padding_before_the_onset_is_decoded_too(open_client) -> None:
    client = open_client()
    client.pause(40)
    client.speak(30)
    assert client.updates[0].start == 40 * FRAME - RATE * 400 // 1000


def test_a_turn_at_the_very_beginning_has_no_more_padding_than_there_is(open_client) -> None:
    client = open_client()
    client.speak(30)
    assert client.updates[0].start == 0


def test_the_next_turn_starts_after_the_window_of_the_one_before(open_client, legal) -> None:
    client = open_client()
    client.speak(40)
    client.pause(20)
    client.speak(40)
    client.pause(20)
    legal(client.events)
    assert [final.turn for final in client.finals] == [1, 2]
    first = max(update.end for update in client.updates if update.segment == 1)
    assert min(update.start for update in client.updates if update.segment == 2) >= first


def test_a_pause_is_decoded_before_the_endpoint_is_certain(open_client, said) -> None:
    """Early finish: the final is the text that is there already."""
    client = open_client(auto=False)
    client.speak(60)
    while client.session.wants is not Purpose.SPECULATIVE:
        assert client.pause(1) == []
        assert client.frames < 70
    client.answer(client.take(Purpose.SPECULATIVE))
    before = len(client.events)
    client.pause(20)
    assert [type(event) for event in client.events[before:]] == [Final, SpeechEnd]
    assert client.finals[0].text == said(0, 5)
    assert client.purposes() == [Purpose.SPECULATIVE]
    assert client.session.tally.overtaken == 0


def test_speech_that_goes_on_overtakes_a_speculation(open_client, said) -> None:
    client = open_client()
    client.speak(60)
    client.pause(8)
    client.speak(60)
    client.pause(20)
    assert client.purposes().count(Purpose.SPECULATIVE) == 2
    assert Purpose.FINAL not in client.purposes()
    assert client.session.tally.overtaken == 1
    assert [final.text for final in client.finals] == [said(0, 11)]


def test_speech_that_goes_on_while_a_speculation_is_decoded(open_client, legal, said) -> None:
    client = open_client(auto=False)
    client.speak(60)
    client.pause(8)
    late = client.take(Purpose.SPECULATIVE)
    client.speak(60)
    client.answer(late)
    assert client.session.tally.overtaken == 1
    client.auto = True
    client.pause(20)
    legal(client.events)
    assert [final.text for final in client.finals] == [said(0, 11)]


def test_the_endpoint_while_a_partial_is_decoded(open_client, legal, said) -> None:
    client = open_client(auto=False)
    client.speak(60)
    partial = client.take(Purpose.PARTIAL)
    client.pause(20)
    assert not client.finals
    final = client.take(Purpose.FINAL)
    events = client.answer(final)
    assert [type(event) for event in events] == [Final, SpeechEnd]
    assert client.finals[0].text == said(0, 5)
    # The partial comes too late to say anything.
    assert client.answer(partial) == []
    assert client.session.wants is None
    legal(client.events)


def test_a_partial_that_arrives_between_the_endpoint_and_the_final(open_client, legal) -> None:
    client = open_client(auto=False)
    client.speak(60)
    partial = client.take(Purpose.PARTIAL)
    client.pause(20)
    assert client.answer(partial) == []
    final = client.take(Purpose.FINAL)
    assert final.draft == client.hypothesis(partial).tokens
    client.answer(final)
    legal(client.events)
    assert len(client.finals) == 1


def test_the_endpoint_while_the_speculation_is_decoded(open_client, said) -> None:
    """The same window is not decoded twice."""
    client = open_client(auto=False)
    client.speak(60)
    client.pause(8)
    speculation = client.take(Purpose.SPECULATIVE)
    client.pause(20)
    assert not client.finals
    assert client.session.wants is None
    assert client.session.waiting == 1
    events = client.answer(speculation)
    assert [type(event) for event in events] == [Final, SpeechEnd]
    assert client.finals[0].text == said(0, 5)
    assert client.session.wants is None


def test_without_partials_there_are_none(open_client, said) -> None:
    client = open_client(Options(partials=False))
    client.speak(100)
    client.pause(20)
    assert not client.partials
    assert Purpose.PARTIAL not in client.purposes()
    assert all(update.draft == () and update.forced == () for update in client.updates)
    assert client.finals[0].text == said(0, 9)


def test_without_speculation_there_is_one_decode_a_segment(open_client) -> None:
    client = open_client(Options(partials=False, speculate=False))
    client.speak(60)
    client.pause(8)
    client.speak(60)
    client.pause(20)
    assert client.purposes() == [Purpose.FINAL]


def test_the_endpoint_is_the_clients_choice(open_client) -> None:
    seen = []
    for endpoint in (300, 500, 1000):
        client = open_client(Options(endpoint_ms=endpoint))
        client.speak(60)
        while not client.finals:
            client.pause(1)
        seen.append((client.frames - 60) * SECONDS)
    for waited, asked in zip(seen, (0.3, 0.5, 1.0), strict=True):
        assert asked - 0.2 < waited < asked + 2 * SECONDS
    assert seen == sorted(seen)


def test_drafts_are_what_was_decoded_last(open_client) -> None:
    client = open_client(auto=False)
    client.speak(40)
    first = client.take(Purpose.PARTIAL)
    assert first.draft == ()
    client.answer(first)
    client.speak(20)
    second = client.take(Purpose.PARTIAL)
    assert second.draft == client.hypothesis(first).tokens
    assert second.start == first.start
    assert second.end > first.end
    assert second.limit >= len(client.hypothesis(second).tokens)


def test_an_update_asks_for_the_newest_audio(open_client) -> None:
    client = open_client(auto=False)
    client.speak(40)
    client.speak(40)
    assert client.take(Purpose.PARTIAL).end == 80 * FRAME
    assert client.session.wants is None  # one at a time


def test_a_session_is_at_rest_when_all_of_it_was_heard_and_answered(open_client) -> None:
    client = open_client(Options(partials=True), auto=False)
    session = client.session
    assert session.at_rest
    session.feed(np.zeros(FRAME - 1, np.float32))
    assert session.at_rest  # no whole frame
    session.feed(np.zeros(1, np.float32))
    assert not session.at_rest
    session.heard(0.02)
    assert session.at_rest
    client.speak(20)
    assert not session.at_rest  # a partial is wanted
    update = client.take(Purpose.PARTIAL)
    assert not session.at_rest  # and is under way
    client.answer(update)
    assert session.at_rest
    client.stop()
    final = client.take(Purpose.FINAL)
    assert not session.at_rest
    client.answer(final)
    assert session.at_rest


def test_noise_is_no_turn(open_client) -> None:
    client = open_client()
    for _ in range(20):
        client.hear(3, 0.9)  # less than the evidence asked for
        client.pause(12)
    client.hear(30, 0.6)  # much, but never strong
    client.pause(30)
    assert client.events == []
    assert client.updates == []
