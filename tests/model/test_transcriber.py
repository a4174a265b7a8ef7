"""Recordings to text: batches, long silences, words, the same each time."""

from itertools import pairwise

import numpy as np
import pytest

from edge_runtime.audio import RATE
from edge_runtime.config import Config, Listening
from edge_runtime.engines.store import Store
from edge_runtime.errors import ModelMissing, RecipeError
from edge_runtime.events import Closed, Final, Overrun, SpeechEnd, SpeechStart
from edge_runtime.transcribe import Transcriber, WholeUtterance


@pytest.fixture(scope="module")
def transcriber(loaded) -> Transcriber:
    return Transcriber(words=True)


def finals(events) -> list[Final]:
    return [event for event in events if isinstance(event, Final)]


def test_segments_of_a_batch_are_decoded_as_each_alone(
    transcriber, runner, decode, loaded, spoken
) -> None:
    demo = spoken("demo")
    events = list(transcriber.transcribe([demo]))
    assert isinstance(events[-1], Closed)
    assert events[-1].audio_seconds == round(len(demo) / RATE, 3)
    found = finals(events)
    assert len(found) >= 3
    assert sum(isinstance(event, SpeechStart) for event in events) == len(
        [event for event in events if isinstance(event, SpeechEnd)]
    )
    for before, after in pairwise(found):
        assert before.end <= after.start
        assert before.segment + 1 == after.segment
    listening = Config().listening
    for final in found[1:-1]:
        # The window of a segment can be told from its times: padding before, a tail after.
        start = int((final.start - listening.padding_ms / 1000) * RATE)
        end = int((final.end + listening.tail_ms / 1000) * RATE)
        (alone,) = decode(runner, demo[start:end])
        text = loaded.model.vocabulary.text(alone.tokens)
        assert text == final.text
        assert " ".join(word.text for word in final.words) == text


def test_the_same_each_time_and_in_blocks_of_any_size(transcriber, spoken) -> None:
    clip = np.pad(spoken("1867-154075-0005"), (0, RATE))
    once = list(transcriber.transcribe([clip]))
    assert [final.text for final in finals(once)] == [
        "That's a likely story.", "I can show you the tracks.",
    ]  # fmt: skip
    blocks = [clip[start : start + 1234] for start in range(0, len(clip), 1234)]
    assert list(transcriber.transcribe(blocks)) == once


def test_nothing_is_lost_in_a_long_silence(spoken) -> None:
    """More silence between two sentences than is ever kept of the audio."""
    clip = spoken("1867-154075-0005")[: int(1.9 * RATE)]
    short = Transcriber(config=Config(listening=Listening(cap_ms=2000, search_ms=500)))
    silence = np.zeros(90 * RATE, np.float32)
    events = list(short.transcribe([clip, silence, clip]))
    assert not [event for event in events if isinstance(event, Overrun)]
    first, second = finals(events)
    assert first.text
    assert second.text == first.text
    assert second.start == pytest.approx(first.start + 91.9, abs=0.1)


def test_many_segments_wait_no_longer_than_there_is_room(spoken) -> None:
    """Speech without a pause: more segments than are gathered for a batch."""
    demo = spoken("demo")
    short = Transcriber(
        config=Config(listening=Listening(cap_ms=2000, search_ms=500)), endpoint_ms=10_000
    )
    events = list(short.transcribe([demo, demo]))
    assert not [event for event in events if isinstance(event, Overrun)]
    found = finals(events)
    assert len(found) > 20
    assert [final.segment for final in found] == sorted(final.segment for final in found)


def test_a_recording_that_is_abandoned_leaves_room_for_the_next(transcriber, spoken) -> None:
    for _ in range(3):
        next(transcriber.transcribe([spoken("1867-154075-0005")]))
    assert finals(transcriber.transcribe([spoken("1867-154075-0005")]))


@pytest.mark.parametrize("samples", [0, 1, 100, RATE])
def test_recordings_without_speech(transcriber, samples: int) -> None:
    events = list(transcriber.transcribe([np.zeros(samples, np.float32)]))
    assert events == [Closed(reason="stop", audio_seconds=round(samples / RATE, 3))]


def test_a_whole_utterance_is_one_segment(loaded, runner, decode, spoken) -> None:
    clip = spoken("1867-154075-0005")
    whole = WholeUtterance()
    (alone,) = decode(runner, clip)
    assert whole(clip) == loaded.model.vocabulary.text(alone.tokens)
    assert whole(clip.astype(np.float64)) == whole(clip)


def test_models_that_are_not_there(tmp_path) -> None:
    with pytest.raises(ModelMissing, match="edge-runtime pull moonshine-tiny-en"):
        Transcriber(store=Store(tmp_path))
    with pytest.raises(RecipeError, match="turns no speech into text"):
        Transcriber("silero-vad")
    with pytest.raises(RecipeError, match=r"Did you mean moonshine-tiny-en\?"):
        Transcriber("moonshine-tiny")
