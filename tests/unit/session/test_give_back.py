"""An update that no device ran is wanted again, and nothing of the text is lost by it."""

from __future__ import annotations

import numpy as np

from edge_runtime.audio import RATE
from edge_runtime.decode.update import Purpose


def test_a_final_given_back_is_decoded_again(open_client, legal, said) -> None:
    client = open_client(auto=False)
    client.speak(60)
    client.pause(20)
    first = client.take(Purpose.FINAL)
    assert client.session.wants is None
    assert client.session.give_back(first) == []
    again = client.take(Purpose.FINAL)
    assert again == first
    client.answer(again)
    assert client.finals[0].text == said(0, 5)
    assert client.session.wants is None
    legal(client.events)


def test_a_partial_given_back_is_wanted_at_once(open_client, said) -> None:
    client = open_client(auto=False)
    client.speak(60)
    first = client.take(Purpose.PARTIAL)
    assert client.session.wants is None  # one at a time
    client.session.give_back(first)
    client.answer(client.take(Purpose.PARTIAL))
    assert client.partials[0].unstable.strip() == said(0, 5)


def test_a_speculation_that_was_to_be_the_final_becomes_one(open_client, said) -> None:
    client = open_client(auto=False)
    client.speak(60)
    client.pause(8)
    speculation = client.take(Purpose.SPECULATIVE)
    client.pause(20)
    assert client.session.wants is None  # its result is the final
    client.session.give_back(speculation)
    final = client.take(Purpose.FINAL)
    assert (final.start, final.end) == (speculation.start, speculation.end)
    client.answer(final)
    assert client.finals[0].text == said(0, 5)


def test_a_partial_of_a_segment_that_is_closed_leaves_its_final_alone(open_client, said) -> None:
    client = open_client(auto=False)
    client.speak(60)
    partial = client.take(Purpose.PARTIAL)
    client.pause(20)
    final = client.take(Purpose.FINAL)
    client.session.give_back(partial)
    assert client.session.wants is None
    client.answer(final)
    assert client.finals[0].text == said(0, 5)


def test_a_partial_that_ended_where_the_segment_does_leaves_its_final_alone(
    open_client, said
) -> None:
    """A flush: the final has the partial's very window, and runs on another lane."""
    for undone in ("give_back", "lost"):
        client = open_client(auto=False)
        client.speak(60)
        partial = client.take(Purpose.PARTIAL)
        client.flush()
        final = client.take(Purpose.FINAL)
        assert final.end == partial.end
        getattr(client.session, undone)(partial)
        assert client.session.wants is None
        client.answer(final)
        assert client.finals[0].text == said(0, 5)


def test_a_final_whose_audio_is_gone_by_now_comes_out_empty(open_client, legal) -> None:
    client = open_client(seconds=4.0, auto=False)
    client.speak(60)
    client.pause(20)
    final = client.take(Purpose.FINAL)
    client.events += client.session.feed(np.zeros(8 * RATE, np.float32))
    client.events += client.session.give_back(final)
    assert [each.text for each in client.finals] == [""]
    assert client.session.wants is None
    legal(client.events)


def test_nothing_comes_back_to_a_session_that_is_over(open_client) -> None:
    client = open_client(auto=False)
    client.speak(60)
    partial = client.take()
    client.session.abandon("shutdown")
    assert client.session.give_back(partial) == []
    assert client.session.wants is None
