"""Finals keep what was sent as stable, come in order, and are cut where it is quiet."""

from itertools import pairwise

import numpy as np
import pytest

from edge_runtime.audio import FRAME, RATE
from edge_runtime.config import Config, Listening
from edge_runtime.decode.update import Purpose
from edge_runtime.events import Final, Partial, SpeechEnd, SpeechStart
from edge_runtime.session import Options

CAP = Config(listening=Listening(cap_ms=6000, search_ms=2000))


def contradicted(client):
    """A turn whose closing decode takes back its first words; the updates not yet answered."""
    client.speak(100)
    client.auto = False
    client.pause(8)
    client.answer(client.take(Purpose.SPECULATIVE), "x0 x1 w2 w3. w4 w5 w6 w7 w8 w9")
    client.pause(20)
    return client


def test_a_final_that_takes_back_stable_text_is_decoded_once_more(open_client, legal, said) -> None:
    client = contradicted(open_client())
    stable = client.partials[-1].stable
    count = len(stable.split())
    assert count >= 3
    assert not client.finals
    assert client.session.tally.forced == 1
    forced = client.take(Purpose.FINAL)
    assert [f"w{token - 4}" for token in forced.forced] == stable.split()
    events = client.answer(forced, said(0, 8) + " x9.")
    assert [type(event) for event in events] == [Final, SpeechEnd]
    (final,) = client.finals
    assert final.text == said(0, 8) + " x9."
    assert final.text.startswith(stable)
    assert final.alternative == "x0 x1 w2 w3. w4 w5 w6 w7 w8 w9"
    assert client.session.wants is None
    legal(client.events)


def test_a_forced_final_is_final_whatever_it_says(open_client, legal) -> None:
    """There is no third decode; and `stable` keeps its spelling."""
    client = contradicted(open_client())
    stable = client.partials[-1].stable
    client.answer(client.take(Purpose.FINAL), "")
    (final,) = client.finals
    assert final.text == stable
    assert client.session.wants is None
    legal(client.events)


def test_what_is_never_sent_as_stable_is_never_forced(open_client) -> None:
    client = contradicted(open_client(Options(partials=False)))
    (final,) = client.finals
    assert final.text.startswith("x0 x1")
    assert final.alternative is None
    assert client.session.tally.forced == 0


def test_a_partial_that_takes_back_stable_text_is_withheld(open_client, legal, said) -> None:
    client = open_client()
    client.speak(100)
    shown, client.auto = len(client.partials), False
    client.speak(20)
    assert client.answer(client.take(Purpose.PARTIAL), "x0 x1 x2") == []
    assert client.session.tally.withheld == 1
    assert len(client.partials) == shown
    client.auto = True
    client.speak(20)
    client.pause(20)
    assert len(client.partials) > shown
    assert client.finals[0].text == said(0, 13)
    assert client.finals[0].alternative is None
    legal(client.events)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"logprobs": (-3.0,) * 4}, "logprob"),
        ({}, "loop"),
    ],
)
def test_what_is_not_believed_is_an_empty_final(open_client, legal, changes, reason) -> None:
    client = open_client(Options(partials=False, speculate=False), auto=False)
    client.speak(60)
    client.pause(20)
    said = "w1 w2 w3 w4" if changes else "w1 " * 6
    client.answer(client.take(Purpose.FINAL), said, **changes)
    (final,) = client.finals
    assert (final.text, final.rejected) == ("", reason)
    legal(client.events)


def test_silence_that_decodes_to_nothing_is_an_empty_final(open_client) -> None:
    client = open_client(Options(partials=False), auto=False)
    client.speak(60)
    client.pause(20)
    client.answer(client.take(), "")
    (final,) = client.finals
    assert (final.text, final.logprob, final.rejected) == ("", 0.0, None)


def test_a_final_that_fails_is_tried_once_more(open_client, legal, said) -> None:
    client = open_client(Options(partials=False), auto=False)
    client.speak(60)
    client.pause(20)
    client.events += client.session.lost(client.take(Purpose.FINAL))
    assert client.finals == []
    client.answer(client.take(Purpose.FINAL))
    assert client.finals[0].text == said(0, 5)
    assert client.session.wants is None
    legal(client.events)


@pytest.mark.parametrize("again", [True, False])
def test_a_device_that_fails_gives_an_empty_final(open_client, legal, again: bool) -> None:
    """At the second try, or at once where no other makes sense."""
    client = open_client(auto=False)
    client.speak(60)
    client.events += client.session.lost(client.take(Purpose.PARTIAL))
    client.pause(20)
    for _ in range(1 + again):
        assert client.finals == []
        client.events += client.session.lost(client.take(Purpose.FINAL), again=again)
    assert client.finals[0].text == ""
    assert client.session.wants is None
    client.auto = True
    client.speak(60)
    client.pause(20)
    assert client.finals[1].text != ""
    legal(client.events)


@pytest.mark.parametrize("silence", [4, 20])
def test_a_speculation_that_fails_costs_no_text(open_client, legal, said, silence: int) -> None:
    """Whether the device fails before the endpoint or after it."""
    client = open_client(Options(partials=False), auto=False)
    client.speak(60)
    client.pause(4)
    speculation = client.take(Purpose.SPECULATIVE)
    client.pause(silence - 4)
    client.events += client.session.lost(speculation)
    client.pause(20 - silence)
    client.answer(client.take(Purpose.FINAL))
    assert client.finals[0].text == said(0, 5)
    assert client.session.wants is None
    legal(client.events)


def test_a_device_that_fails_after_stable_text_keeps_it(open_client, legal) -> None:
    client = open_client()
    client.speak(100)
    stable = client.partials[-1].stable
    assert stable
    client.auto = False
    client.pause(20)
    while client.session.wants is not None:
        client.events += client.session.lost(client.take())
    (final,) = client.finals
    assert final.text.startswith(stable)
    legal(client.events)


def test_finals_come_in_order_whatever_is_decoded_first(open_client, legal, said) -> None:
    client = open_client(auto=False)
    for _ in range(3):
        client.speak(40)
        client.pause(20)
    first, second, third = (client.take(Purpose.FINAL) for _ in range(3))
    assert client.session.wants is None
    assert client.answer(third) == []
    assert client.answer(second) == []
    # The first turn began before all; nothing of the later ones was told before its final.
    assert [type(event) for event in client.events] == [SpeechStart]
    events = client.answer(first)
    assert [type(event) for event in events] == [
        Final, SpeechEnd, SpeechStart, Final, SpeechEnd, SpeechStart, Final, SpeechEnd,
    ]  # fmt: skip
    assert [final.text for final in client.finals] == [said(0, 3), said(4, 7), said(8, 11)]
    legal(client.events)


def test_no_partial_of_a_turn_before_the_final_of_the_one_before(open_client, legal) -> None:
    client = open_client(auto=False)
    client.speak(40)
    client.pause(20)
    first = client.take(Purpose.FINAL)
    client.speak(60)
    assert client.session.wants is None
    client.answer(first)
    client.answer(client.take(Purpose.PARTIAL))
    assert isinstance(client.events[-1], Partial)
    legal(client.events)


def test_past_its_cap_a_segment_is_cut_where_it_is_quietest(open_client, legal, said) -> None:
    # Words 9, 10, 11 … begin quietly; the quiet of word 15 lies in the last two seconds.
    quiet = {160, 161, 162}
    client = open_client(config=CAP, level=lambda frame: 0.001 if frame in quiet else 1.0)
    client.speak(230)
    client.pause(20)
    legal(client.events)
    assert [final.reason for final in client.finals] == ["cap", "endpoint"]
    first, second = client.finals
    assert first.end == second.start
    assert 160 <= first.end * RATE / FRAME <= 163
    assert (first.turn, second.turn) == (1, 1)
    assert (first.segment, second.segment) == (1, 2)
    assert [type(event) for event in client.of(SpeechStart, SpeechEnd)] == [SpeechStart, SpeechEnd]
    assert first.text == said(0, 15)
    assert second.text == said(16, 22)


def test_no_segment_is_longer_than_the_cap(open_client, legal, said) -> None:
    rng = np.random.default_rng(3)
    levels = rng.random(2000)
    client = open_client(config=CAP, level=lambda frame: levels[frame])
    client.speak(1500)
    client.pause(20)
    legal(client.events)
    assert len(client.finals) >= 1500 * FRAME / RATE / 6
    assert all(update.end - update.start <= 6 * RATE + FRAME for update in client.updates)
    # Cuts lose nothing and double nothing.
    assert " ".join(final.text for final in client.finals) == said(0, 149)
    spans = [(final.start, final.end) for final in client.finals]
    assert all(end == start for (_, end), (start, _) in pairwise(spans))


def test_words_that_a_cut_may_still_reach_are_not_stable(open_client) -> None:
    client = open_client(config=CAP)
    client.speak(170)
    (latest,) = client.partials[-1:]
    within = (6000 - 2000) / 1000 * RATE / FRAME  # frames before which no cut can fall
    assert 0 < len(latest.stable.split()) <= within / 10 + 1


def test_a_pause_at_the_cap_is_where_it_ends(open_client, legal, said) -> None:
    """The pause is the quietest place, and no empty segment follows it."""
    speech = 180
    client = open_client(
        Options(endpoint_ms=1000), CAP, level=lambda frame: 1.0 if frame < speech else 0.0
    )
    client.speak(speech)
    client.pause(40)
    legal(client.events)
    assert [final.text for final in client.finals] == [said(0, 17)]
    assert client.events[-1] == SpeechEnd(turn=1, at=round(speech * FRAME / RATE, 3))


def test_no_window_begins_before_a_cut_in_the_pause_before_it(open_client, legal) -> None:
    client = open_client(
        Options(endpoint_ms=1000), CAP, level=lambda frame: 0.0 if 182 <= frame < 188 else 1.0
    )
    client.speak(165)
    client.pause(30)
    client.speak(40)
    client.pause(40)
    legal(client.events)
    assert [final.reason for final in client.finals] == ["cap", "endpoint"]
    cut = next(update for update in client.updates if update.purpose is Purpose.FINAL)
    assert cut.end <= client.updates[-1].start


def test_a_cut_that_nothing_follows_shows_nothing(open_client, legal) -> None:
    """Speech ends just before the cap is reached: the quietest place is after it."""
    frames = 6000 * RATE // 1000 // FRAME + 1
    speech = frames - 2
    client = open_client(config=CAP, level=lambda frame: 1.0 if frame < speech else 0.0)
    client.speak(speech)
    client.pause(2)
    client.auto = False
    client.decode()
    assert [final.reason for final in client.finals] == ["cap"]
    client.pause(1)
    assert client.session.wants is None
    client.pause(20)
    legal(client.events)
    assert isinstance(client.events[-1], SpeechEnd)
    assert {event.segment for event in client.partials} == {1}


def test_word_times_are_those_of_the_stream(open_client) -> None:
    client = open_client(Options(partials=False, words=True), auto=False)
    client.pause(60)
    client.speak(40)
    client.pause(20)
    update = client.take()
    assert update.align
    hypothesis = client.hypothesis(update)
    attention = np.full((len(hypothesis.tokens), hypothesis.frame_count), 1e-4, np.float32)
    bounds = [0, 20, 40, 60, hypothesis.frame_count]
    for token in range(4):
        attention[token, bounds[token] : bounds[token + 1]] = 1.0
    client.answer(update, align=attention)
    words = client.finals[0].words
    assert words is not None
    assert [word.text for word in words] == ["w0", "w1", "w2", "w3"]
    assert all(word.logprob == -0.05 for word in words)
    start, step = update.start / RATE, 384 / RATE
    for word, begin in zip(words[1:], bounds[1:], strict=False):
        assert word.start == pytest.approx(start + begin * step, abs=0.1)
    assert all(one.end <= other.start for one, other in pairwise(words))
    assert words[-1].end <= update.end / RATE


def test_words_are_not_asked_for_by_partials(open_client) -> None:
    client = open_client(Options(words=True), auto=False)
    client.speak(60)
    assert not client.take(Purpose.PARTIAL).align
    client.pause(20)
    assert client.take(Purpose.FINAL).align
