"""The room: levels in dB of full scale, and thresholds from made-up verdicts of the detector."""

import numpy as np
import pytest

from edge_runtime.config import Listening
from edge_runtime.engines.calibrate.room import Heard, listen, study

SECOND = 16000 / 512


def heard(seconds, probability, level=-60.0, spread=0.0):
    """Frames of one level (dB) whose probabilities lie evenly within `spread` of one value."""
    count = round(seconds * SECOND)
    return Heard(
        np.full(count, 10 ** (level / 10)),
        probability + np.linspace(-spread, spread, count),
    )


def joined(*parts):
    return Heard(
        np.concatenate([part.levels for part in parts]),
        np.concatenate([part.probabilities for part in parts]),
    )


SPEECH = heard(30, 0.97, -20)


class Ears:
    """A detector that hears speech in what is louder than a tenth of full scale."""

    def __init__(self):
        self.opened = 0

    def open(self):
        self.opened += 1
        return 0

    def close(self, slot):
        self.opened -= 1

    def hear(self, slots, samples):
        loud = [np.abs(each.reshape(-1, 512)).max(1) > 0.1 for each in samples]
        return [each.astype(float).tolist() for each in loud]


def test_each_frame_has_a_level_and_a_probability():
    samples = np.concatenate([np.full(1024, 0.5), np.full(512 + 100, 0.01)]).astype(np.float32)
    ears = Ears()
    found = listen(ears, samples)
    np.testing.assert_allclose(found.levels, [0.25, 0.25, 0.0001], rtol=1e-6)
    np.testing.assert_array_equal(found.probabilities, [1, 1, 0])
    assert found.spoken(0.5) == pytest.approx(0.064)
    assert ears.opened == 0
    assert listen(ears, samples[:100]).spoken(0.5) == 0


def test_the_usual_threshold_is_kept_where_it_divides_well():
    room = study([heard(20, 0.1)], [SPEECH])
    assert room.threshold == 0.5
    assert room.reason.startswith("the usual 0.5 is kept: without speech the detector stays under")
    assert room.floor_db == pytest.approx(-60)
    assert room.seconds == pytest.approx(20, abs=0.05)


@pytest.mark.parametrize(
    ("noise", "speech", "threshold"),
    [
        (0.6, 0.9, 0.75),  # a room that half sounds like speech
        (0.1, 0.48, 0.3),  # a detector that is never sure: 0.29, and no lower than 0.3
        (0.7, 0.98, 0.8),  # no higher than 0.8
    ],
)
def test_else_it_lies_in_the_middle_within_sane_bounds(noise, speech, threshold):
    room = study([heard(20, noise)], [heard(30, speech, -20)])
    assert room.threshold == threshold
    assert "lies between" in room.reason


def test_a_room_that_sounds_like_speech_is_kept_out_and_what_it_costs_is_said():
    room = study([heard(20, 0.55)], [heard(30, 0.6, -20, spread=0.3)])
    assert room.threshold == 0.55
    assert "would miss 42 % of it" in room.reason
    assert study([heard(20, 0.99)], [heard(30, 0.9)]).threshold == 0.8
    assert study([heard(20, 0.4)], [heard(30, 0.5, -20, spread=0.5)]).threshold == 0.5


def test_only_loud_frames_count_as_speech():
    pauses = heard(10, 0.0, -45)
    assert study([heard(20, 0.1)], [joined(SPEECH, pauses)]).threshold == 0.5


def test_one_click_in_a_thousand_frames_decides_nothing():
    click = heard(2 / SECOND, 0.95)
    room = study([joined(heard(80, 0.1), click)], [SPEECH])
    assert room.threshold == 0.5


@pytest.mark.parametrize(
    ("empty", "speech", "said"),
    [
        ([heard(9, 0.9)], [SPEECH], "9 s of recordings without speech"),
        ([heard(20, 0.9)], [heard(9, 0.9, -20)], "9 s of recordings with speech"),
        ([heard(20, 0.9)], [heard(30, 0.0, -120)], "0 s of recordings with speech"),
        ([heard(20, 0.9)], [], "0 s of recordings with speech"),
    ],
)
def test_too_little_of_either_keeps_the_threshold_and_says_so(empty, speech, said):
    room = study(empty, speech, Listening(threshold=0.6))
    assert room.threshold == 0.6
    assert said in room.reason


def test_without_a_recording_of_the_room_pauses_give_the_floor_and_no_threshold():
    room = study([], [joined(SPEECH, heard(4, 0.02, -52), heard(4, 0.3, -30))])
    assert room.floor_db == pytest.approx(-52)
    assert room.seconds == pytest.approx(4, abs=0.05)
    assert room.threshold == 0.5
    assert study([], [SPEECH]).floor_db is None


def test_digital_silence_has_the_lowest_level():
    silent = Heard(np.zeros(400), np.zeros(400))
    assert study([silent], [SPEECH]).floor_db == -100
