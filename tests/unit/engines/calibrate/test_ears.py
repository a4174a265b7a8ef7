"""Recordings are cut into the turns that a session would decode, and written turn by turn."""

from __future__ import annotations

import numpy as np
import pytest

from edge_runtime.audio import FRAME, RATE
from edge_runtime.config import Config
from edge_runtime.engines.calibrate.ears import Ears
from edge_runtime.engines.calibrate.texts import Text, Writer
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store


def sound(*parts: tuple[float, float]) -> np.ndarray:
    """Noise of so many seconds at so loud a level, one part after the other."""
    random = np.random.default_rng(3)
    pieces = [random.normal(0, level, int(seconds * RATE)) for seconds, level in parts]
    return np.concatenate(pieces).astype(np.float32)


@pytest.fixture(scope="module")
def ears(ready) -> Ears:
    return Ears(Store(ready).graphs(load_recipe("silero-vad")) / "vad.onnx")


@pytest.fixture(scope="module")
def writer(ready, made_up) -> Writer:
    return Writer(Store(ready).graphs(made_up), 20 * RATE)


def test_a_pause_parts_two_turns(ears, writer) -> None:
    samples = sound((1.0, 0.0), (2.0, 0.1), (1.5, 0.0), (1.0, 0.1), (1.0, 0.0))
    listening = Config().listening
    before, after = listening.padding_ms * RATE // 1000, listening.tail_ms * RATE // 1000
    found = ears.windows(samples, writer.model)
    wanted = [(1.0, 3.0), (4.5, 5.5)]
    assert len(found) == len(wanted)
    for (start, end), (spoken, silent) in zip(found, wanted, strict=True):
        assert start == pytest.approx(spoken * RATE - before, abs=2 * FRAME)
        assert end == pytest.approx(silent * RATE + after, abs=4 * FRAME)


def test_what_is_longer_than_a_segment_is_cut_and_the_end_of_a_recording_ends_a_turn(
    ears, writer
) -> None:
    samples = sound((0.5, 0.0), (20.0, 0.1))
    first, second = ears.windows(samples, writer.model)
    assert first[1] == second[0]
    assert first[1] - first[0] <= Config().listening.cap_ms * RATE // 1000 + FRAME
    assert second[1] == len(samples)


def test_silence_has_no_turn(ears, writer) -> None:
    assert ears.windows(np.zeros(3 * RATE, np.float32), writer.model) == ()
    assert ears.windows(np.zeros(0, np.float32), writer.model) == ()
    assert Text().text == ""


def test_a_text_is_that_of_its_turns(writer) -> None:
    samples = sound((3.0, 0.1))
    windows = ((0, RATE), (RATE, 3 * RATE))
    text = writer.text(samples, windows)
    alone = [writer(samples[start:end]) for start, end in windows]
    assert text.windows == windows
    assert [turn.tokens for turn in text.turns] == [turn.tokens for turn in alone]
    assert [turn.logprob for turn in text.turns] == [turn.logprob for turn in alone]
    assert text.text == f"{alone[0].text} {alone[1].text}".strip()
