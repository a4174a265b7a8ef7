"""How a clip goes, as the server hears it."""

import numpy as np
import pytest

from edge_runtime.audio import FRAME, RATE
from edge_runtime.bench.course import Moment, courses, heard, piece
from edge_runtime.bench.manifest import Clip
from edge_runtime.config import Listening


@pytest.mark.parametrize(("at", "frames"), [(0.0, 0), (0.099, 0), (0.1, 3), (0.2, 6), (0.32, 9)])
def test_what_is_heard_are_whole_frames_of_whole_pieces(at, frames):
    assert heard(at) == pytest.approx(frames * FRAME / RATE)


def test_audio_can_be_heard_when_its_piece_was_sent():
    assert piece(0.1) == pytest.approx(0.1)
    assert piece(0.101) == pytest.approx(0.2)


def spoken(tmp_path, seconds, said="ONE"):
    """A clip with a tone from 0.5 s on, and half a second of silence behind it."""
    clip = Clip("a", tmp_path, said, "")
    pcm = np.zeros(int(RATE * (seconds + 1.0)), np.float32)
    pcm[RATE // 2 : RATE // 2 + int(seconds * RATE)] = 0.1
    clip.__dict__["pcm"] = pcm
    return clip


def loud(clips):
    """A voice detector that takes the tone for speech."""
    return [
        [float(pcm[at : at + FRAME].any()) for at in range(0, len(pcm) - FRAME + 1, FRAME)]
        for pcm in clips
    ]


def test_verdicts_come_with_the_pieces_they_are_about(tmp_path):
    listening = Listening()
    (course,) = courses([spoken(tmp_path, 2.0)], loud, listening)
    onset, silence, endpoint = course.moments
    first, last = RATE // 2 // FRAME, -(-RATE * 5 // 2 // FRAME)
    assert onset.place == pytest.approx(first * FRAME / RATE)
    assert silence == Moment(silence.at, "silence", pytest.approx(last * FRAME / RATE))
    assert endpoint.place == silence.place
    assert silence.at == pytest.approx(piece(silence.place + listening.tail_ms / 1000))
    wait = (500 - listening.lag_ms) / 1000
    assert endpoint.at == pytest.approx(piece(endpoint.place + wait), abs=0.101)
    assert course.close == pytest.approx(2.5, abs=0.02)
    assert course.seconds == 3.0
    assert course.least == pytest.approx(course.close + 0.8, abs=0.001)
    assert course.most == 6.0


def test_where_nobody_speaks_it_is_played_all_the_same(tmp_path):
    clip = Clip("noise", tmp_path, "", "non-speech")
    clip.__dict__["pcm"] = np.zeros(RATE, np.float32)
    (course,) = courses([clip], loud, Listening())
    assert (course.moments, course.close) == ((), None)
    assert course.least > 1.0


def test_who_says_more_words_in_a_second_is_faster(tmp_path):
    four = "ONE TWO THREE FOUR"
    clips = [spoken(tmp_path, 4.0, four), spoken(tmp_path, 2.0, four), spoken(tmp_path, 2.0, "")]
    paces = [each.pace for each in courses(clips, loud, Listening())]
    assert paces[1] / paces[0] == pytest.approx(2.0, rel=0.05)
    assert paces[0] < 1.0 < paces[1]
    assert paces[2] == 1.0
