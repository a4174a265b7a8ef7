"""How much of a stretch was speech: whole runs, parts of them, and what is forgotten."""

from edge_runtime.audio import FRAME
from edge_runtime.audio.spoken import Spoken


def test_speech_is_counted_within_a_stretch() -> None:
    spoken = Spoken()
    for frame in [2, 3, 4, 8, 9]:
        spoken.frame(frame * FRAME)
    assert spoken.samples(0, 20 * FRAME) == 5 * FRAME
    assert spoken.samples(3 * FRAME, 9 * FRAME) == 3 * FRAME
    assert spoken.samples(2 * FRAME + 100, 3 * FRAME - 12) == FRAME - 112
    assert spoken.samples(5 * FRAME, 8 * FRAME) == 0
    assert spoken.samples(9 * FRAME, 4 * FRAME) == 0


def test_a_run_is_forgotten_once_it_is_over() -> None:
    spoken = Spoken()
    for frame in [0, 1, 5]:
        spoken.frame(frame * FRAME)
    spoken.forget(FRAME)
    assert spoken.samples(0, 6 * FRAME) == 3 * FRAME
    spoken.forget(2 * FRAME)
    assert spoken.samples(0, 6 * FRAME) == FRAME
