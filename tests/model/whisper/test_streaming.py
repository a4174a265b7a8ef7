"""A session on real speech: captions that only grow, drafts that are taken, the offline text."""

from __future__ import annotations

import numpy as np
import pytest

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Ring
from edge_runtime.config import Config
from edge_runtime.decode.update import Hypothesis
from edge_runtime.events import Event, Final, Partial
from edge_runtime.session import Options, Session


def play(loaded, runner, samples: np.ndarray, options: Options):
    """The events of `samples` in pieces of 100 ms, each update decoded at once, and the updates."""
    session = Session("s", loaded.model, Config(), options, Ring(30 * RATE))
    ears = loaded.ear(1)
    slot = ears.open()
    events: list[Event] = []
    decoded: list[Hypothesis] = []

    def decode() -> None:
        while (update := session.take()) is not None:
            audio = session.ring.pieces(update.start, update.end)
            decoded.extend(runner.run([update], [audio]))
            events.extend(session.accept(decoded[-1]))

    for start in range(0, len(samples), RATE // 10):
        events.extend(session.feed(samples[start : start + RATE // 10]))
        while session.due:
            ((probability,),) = ears.hear([slot], [session.frames()])
            events.extend(session.heard(probability))
            decode()
    events.extend(session.stop())
    decode()
    return events, decoded


@pytest.fixture(scope="module")
def talk(spoken) -> np.ndarray:
    return np.concatenate([spoken("1867-154075-0005"), np.zeros(RATE, np.float32)])


def test_captions_grow_to_the_offline_text(whisper, run, talk) -> None:
    events, decoded = play(whisper, run, talk, Options(words=True))
    offline, _ = play(whisper, run, talk, Options(partials=False, speculate=False))
    finals = [event for event in events if isinstance(event, Final)]
    assert [each.text for each in finals] == [
        each.text for each in offline if isinstance(each, Final)
    ]
    partials = [event for event in events if isinstance(event, Partial)]
    assert partials
    for final in finals:
        shown = [each.stable for each in partials if each.segment == final.segment]
        assert all(final.text.startswith(stable) for stable in shown)
        times = [(word.start, word.end) for word in final.words or []]
        assert len(times) == len(final.text.split())
        assert times == sorted(times)
        assert final.start - 0.5 <= times[0][0] <= times[-1][1] <= final.end + 0.7
        assert final.language is None
    costs = [each.cost for each in decoded]
    assert sum(cost.accepted for cost in costs) > 0


def test_noise_is_not_taken_for_words(whisper, run, decode) -> None:
    """On what is no speech the model thinks silence likely; on speech it does not."""
    random = np.random.default_rng(3)
    noise = random.normal(0, 0.003, 3 * RATE).astype(np.float32)
    (heard,) = decode(run, noise, limit=20)
    assert heard.silence > np.log(0.6)
