"""How much of a stretch of audio was speech, by the voice detector's verdicts on its frames."""

from __future__ import annotations

from edge_runtime.audio import FRAME


class Spoken:
    """The runs of frames that were speech, in absolute samples, of a stream's newest audio."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int]] = []

    def frame(self, at: int) -> bool:
        """The frame that begins at sample `at` is speech; frames come in order.

        Tells whether a run begins with it: only then is there one more to keep.
        """
        start = at
        if self._runs and self._runs[-1][1] == at:
            start, _ = self._runs.pop()
        self._runs.append((start, at + FRAME))
        return start == at

    def forget(self, before: int) -> None:
        """Nobody will ask about audio before that sample."""
        while self._runs and self._runs[0][1] <= before:
            del self._runs[0]

    def samples(self, start: int, end: int) -> int:
        """How many of the samples [start, end) are speech."""
        return sum(max(0, min(last, end) - max(first, start)) for first, last in self._runs)
