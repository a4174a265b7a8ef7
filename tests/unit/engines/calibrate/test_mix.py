"""Whether the texts of a mix do: what luck explains is left to their likelihood."""

import pytest

from edge_runtime.engines.calibrate.gate import Outcome
from edge_runtime.engines.calibrate.mix import lost

WORDS = " ".join(f"word{number}" for number in range(35))


def said(wrong: int, clips: int = 20) -> list[Outcome]:
    """Of clips of 35 words each, so many lose one."""
    return [
        Outcome(str(n), 10.0, WORDS, WORDS.replace("word7", "other") if n < wrong else WORDS, WORDS)
        for n in range(clips)
    ]


@pytest.mark.parametrize(
    ("wrong", "does"),
    [(2, True), (3, True), (12, False)],
    ids=["as much as is allowed", "more, but as by luck", "surely more"],
)
def test_a_mix_is_refused_by_words_only_where_they_can_tell(wrong, does) -> None:
    increase, passed = lost(said(wrong), 0.3)
    assert increase == pytest.approx(100 * wrong / 700)
    assert passed is does


def test_words_on_silence_are_never_luck() -> None:
    noise = Outcome("noise", 5.0, "", "thank you", "")
    assert lost([*said(0), noise], 0.3) == (0.0, False)
