"""A text that ends before all was said: the rest is decoded by itself, and no final lacks it."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.audio import FRAME, RATE
from edge_runtime.decode.update import Purpose
from edge_runtime.events import Final, SpeechEnd
from edge_runtime.session import Options

QUIET = range(57, 63)
"""Frames of a dip between word 5 and word 6."""


def level(frame):
    return 0.01 if frame in QUIET else 1.0


def early(client, update, count, **fields):
    """Answer with the first `count` words of what the update holds."""
    heard = client.hypothesis(update)
    kept = {
        name: getattr(heard, name)[:count] for name in ("tokens", "logprobs", "margins", "frames")
    }
    return client.answer(update, **(kept | fields))


@pytest.fixture(scope="session")
def spoke(open_client):
    """Twelve words, of which nothing is decoded yet; `options` as those of a session."""

    def opened(count=12, seconds=30.0, **options):
        options = {"partials": False, "speculate": False, **options}
        client = open_client(Options(**options), auto=False, level=level, seconds=seconds)
        if count:
            client.speak(10 * count)
            client.pause(20)
        return client

    return opened


def test_what_a_text_left_out_is_decoded_by_itself(spoke, legal, said) -> None:
    client = spoke()
    whole = client.take(Purpose.FINAL)
    assert early(client, whole, 6, language="de") == []
    assert client.session.waiting == 1
    rest = client.take(Purpose.FINAL)
    assert rest.segment == whole.segment
    assert rest.end == whole.end
    assert QUIET[0] <= rest.start / FRAME <= QUIET[-1] + 1
    assert (rest.draft, rest.forced, rest.language) == ((), (), "de")
    assert rest.limit < whole.limit
    events = client.answer(rest)
    assert [type(event) for event in events] == [Final, SpeechEnd]
    (final,) = client.finals
    assert final.text == said(0, 11)
    assert (final.start, final.end) == (0.0, round(120 * FRAME / RATE, 3))
    assert (final.reason, final.language) == ("endpoint", "de")
    assert client.session.wants is None
    legal(client.events)


def test_audio_that_its_first_part_heard_is_let_go(spoke) -> None:
    client = spoke(seconds=8.0)
    before = client.session.room
    early(client, client.take(Purpose.FINAL), 6)
    assert client.session.room >= before + QUIET[0] * FRAME


def test_a_speculation_that_left_out_something_is_no_final_yet(spoke, legal, said) -> None:
    client = spoke(0, speculate=True)
    client.speak(120)
    client.pause(8)
    early(client, client.take(Purpose.SPECULATIVE), 6)
    client.pause(20)
    assert client.finals == []
    rest = client.take(Purpose.FINAL)
    assert QUIET[0] <= rest.start / FRAME <= QUIET[-1] + 1
    client.answer(rest)
    assert [final.text for final in client.finals] == [said(0, 11)]
    legal(client.events)


def test_stable_text_is_kept_and_the_rest_is_not_forced_to_it(spoke, legal, said) -> None:
    client = spoke(0, partials=True)
    client.auto = True
    client.speak(80)
    client.auto = False
    client.speak(80)
    client.pause(20)
    stable = client.partials[-1].stable
    assert len(stable.split()) >= 3
    client.answer(client.take(Purpose.FINAL), "x0 x1 x2")
    forced = client.take(Purpose.FINAL)
    early(client, forced, len(forced.forced))
    rest = client.take(Purpose.FINAL)
    assert rest.start > forced.start
    assert (rest.draft, rest.forced) == ((), ())
    client.answer(rest)
    (final,) = client.finals
    assert final.text == said(0, 15)
    assert final.alternative == "x0 x1 x2"
    legal(client.events)


def test_stable_text_of_which_audio_went_is_not_said_again(spoke, legal) -> None:
    """A forced text that lacks stable words tells nothing of what comes behind those."""
    client = spoke(0, partials=True)
    client.auto = True
    client.speak(160)
    client.auto = False
    client.pause(20)
    stable = client.partials[-1].stable
    client.answer(client.take(Purpose.FINAL), "x0 x1 x2")
    early(client, client.take(Purpose.FINAL), 3)
    assert [final.text for final in client.finals] == [stable]
    legal(client.events)


@pytest.mark.parametrize("answer", ["", "w1 " * 6])
def test_a_rest_that_gives_nothing_to_believe_ends_it(spoke, legal, said, answer: str) -> None:
    client = spoke()
    early(client, client.take(Purpose.FINAL), 6)
    client.answer(client.take(Purpose.FINAL), answer)
    (final,) = client.finals
    assert (final.text, final.logprob, final.rejected) == (said(0, 5), -0.05, None)
    assert client.session.wants is None
    legal(client.events)


def test_a_device_that_fails_at_the_rest_loses_only_that(spoke, legal, said) -> None:
    client = spoke()
    early(client, client.take(Purpose.FINAL), 6)
    client.events += client.session.lost(client.take(Purpose.FINAL))
    assert client.finals == []
    client.events += client.session.lost(client.take(Purpose.FINAL))
    assert [final.text for final in client.finals] == [said(0, 5)]
    assert client.session.wants is None
    legal(client.events)


def test_a_rest_whose_audio_is_overwritten_loses_only_that(spoke, legal, said) -> None:
    client = spoke(seconds=6.0)
    early(client, client.take(Purpose.FINAL), 6)
    client.events += client.session.feed(np.zeros(6 * RATE, np.float32))
    assert [final.text for final in client.finals] == [said(0, 5)]
    assert client.session.wants is None
    legal(client.events)


@pytest.mark.parametrize(
    ("count", "fields"),
    [
        (8, {}),  # 1.4 s of speech from the middle of the last word on
        (6, {"ended": False}),
        (6, {"logprobs": (-3.0,) * 6}),
        (0, {}),
    ],
    ids=["short", "cut off", "not believed", "nothing"],
)
def test_what_is_no_early_end_is_the_final(spoke, count: int, fields: dict) -> None:
    client = spoke()
    early(client, client.take(Purpose.FINAL), count, **fields)
    assert len(client.finals) == 1
    assert client.session.wants is None


def test_a_last_word_that_looks_back_is_where_the_one_before_it_is(spoke, said) -> None:
    client = spoke()
    update = client.take(Purpose.FINAL)
    heard = client.hypothesis(update)
    client.answer(update, frames=(*heard.frames[:-1], 0))
    assert [final.text for final in client.finals] == [said(0, 11)]


def test_a_pause_is_nothing_that_was_left_out(spoke, said) -> None:
    """Two seconds of it, and then half a second of speech: less than what counts."""
    client = spoke(0, endpoint_ms=4000)
    client.speak(60)
    client.pause(60)
    client.speak(16)
    client.pause(140)
    early(client, client.take(Purpose.FINAL), 6)
    assert [final.text for final in client.finals] == [said(0, 5)]


def test_words_of_all_parts_are_timed_in_the_stream(spoke) -> None:
    """What the first part heard last ends where the rest begins."""
    client = spoke(words=True)
    starts = []
    for count in (6, 6):
        update = client.take(Purpose.FINAL)
        starts.append(update.start)
        heard = client.hypothesis(update)
        attention = np.full((count, heard.frame_count), 1e-4, np.float32)
        for token, (begin, end) in enumerate(pairwise([*range(0, count * 12, 12), None])):
            attention[token, begin:end] = 1.0
        early(client, update, count, align=attention)
    (final,) = client.finals
    assert [word.text for word in final.words] == [f"w{number}" for number in range(12)]
    step = 384 / RATE
    for word, number in zip(final.words, range(12), strict=True):
        part, inside = divmod(number, 6)
        assert word.start == pytest.approx(starts[part] / RATE + inside * 12 * step, abs=0.1)
    assert final.words[5].end == pytest.approx(starts[1] / RATE, abs=1e-3)
    assert all(one.end <= other.start for one, other in pairwise(final.words))


@pytest.mark.parametrize("frame", [0, 60])
def test_a_text_that_never_gets_on_is_not_asked_for_ever(spoke, legal, frame: int) -> None:
    """One word, said again and again: at the window's start, or 1.4 s behind that."""
    client = spoke(45)
    windows = []
    while client.session.wants is not None:
        update = client.take(Purpose.FINAL)
        windows.append(update.start)
        client.answer(update, "x1", frames=(frame,))
    assert len(client.finals) == 1
    assert all(after - before >= RATE // 2 for before, after in pairwise(windows))
    assert (len(windows) == 1) == (frame == 0)
    legal(client.events)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=20), st.integers(1, 45))
def test_no_order_of_early_ends_doubles_or_loops(spoke, legal, counts, words) -> None:
    client = spoke(words)
    asked = 0
    while client.session.wants is not None:
        early(client, client.take(Purpose.FINAL), counts[asked % len(counts)])
        asked += 1
    assert asked <= 2 * words * 10 * FRAME / RATE + 1
    legal(client.events)
    for final in client.finals:
        numbers = [int(word[1:]) for word in final.text.split()]
        assert numbers == sorted(set(numbers))
