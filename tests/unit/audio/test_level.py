"""Warnings of microphones that are set wrong: given when they should be, and once."""

from __future__ import annotations

import numpy as np
import pytest

from edge_runtime.audio.level import Level

RATE = 48000
CHANCE = np.random.default_rng(4)


def noise(seconds, db):
    """White noise of a level in dB below full scale."""
    return (CHANCE.normal(size=int(seconds * RATE)) * 10 ** (db / 20)).astype(np.float32)


def spoken(seconds, db):
    """Half a second of speech and half a second of quiet, 30 dB below it, in turn."""
    return np.concatenate(
        [noise(0.5, level) for _ in range(int(seconds)) for level in (db, db - 30)]
    )


def codes(level, samples, block=1000):
    return [
        code
        for at in range(0, len(samples), block)
        for code, _ in level.push(samples[at : at + block])
    ]


@pytest.fixture
def level():
    return Level(RATE)


def test_good_speech_is_not_complained_of(level):
    assert codes(level, spoken(40, -20)) == []


def test_clipping_once_until_it_is_relieved(level):
    loud = np.clip(noise(3, 0), -1, 1)
    assert codes(level, loud) == ["microphone_clipping"]
    assert codes(level, spoken(8, -20)) == []
    assert codes(level, loud) == []
    assert codes(level, spoken(11, -20)) == []
    assert codes(level, loud) == ["microphone_clipping"]


def test_one_click_is_no_clipping(level):
    samples = spoken(5, -20)
    samples[RATE : RATE + 40] = 1.0
    assert codes(level, samples) == []


@pytest.mark.parametrize("value", [0.0, 0.25])
def test_a_microphone_that_gives_nothing(level, value):
    nothing = np.full(RATE * 9, value, np.float32)
    assert codes(level, nothing) == []
    assert codes(level, nothing) == ["microphone_silent"]
    assert codes(level, spoken(2, -20)) == []
    assert codes(level, np.concatenate([nothing, nothing])) == ["microphone_silent"]


def test_an_empty_room_is_not_quiet_speech(level):
    assert codes(level, noise(40, -70)) == []


def test_quiet_speech_once_until_it_is_louder(level):
    assert codes(level, spoken(40, -55)) == ["microphone_quiet"]
    assert codes(level, spoken(35, -30)) == []
    assert codes(level, spoken(35, -55)) == ["microphone_quiet"]
