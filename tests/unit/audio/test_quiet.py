"""A cut falls where the speech is quietest."""

import numpy as np

from edge_runtime.audio.quiet import quietest


def test_the_middle_of_the_quietest_place() -> None:
    rng = np.random.default_rng(7)
    speech = rng.normal(0, 0.1, 32000).astype(np.float32)
    speech[20000:22400] *= 0.01  # 150 ms, 1.25 s in
    assert 20000 + 800 <= quietest(speech) <= 22400 - 800


def test_a_single_quiet_block_is_no_pause() -> None:
    speech = np.full(32000, 0.1, np.float32)
    speech[5000:5160] = 0.0  # 10 ms between two sounds
    speech[24000:25600] = 0.01
    assert 24000 <= quietest(speech) <= 25600


def test_the_shortest_that_can_be_cut() -> None:
    assert quietest(np.ones(1600, np.float32)) == 800
