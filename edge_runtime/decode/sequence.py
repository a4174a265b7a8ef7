"""One greedy decode, told what the decoder said: checks a draft, re-aligns it, goes on alone."""

from __future__ import annotations

from collections.abc import Container
from collections.abc import Sequence as Seq
from dataclasses import replace

from edge_runtime.decode.update import Cost

WINDOW = 8
"""How far ahead in a refused draft the newest token is looked for."""

CHUNK = 24
"""Draft tokens offered again at once: a longer guess costs more than it saves on a CPU."""

GUESS = 6
"""Draft tokens offered after one that the decoder replaced."""


class Sequence:
    """The text tokens of one update as they become known.

    `feed()` gives the tokens for the next decoder pass, which start at cache row
    `position`; `take(…)` says what the decoder answered to each. The tokens that
    come out are those of a greedy decode from scratch (after the forced prefix):
    a draft token counts only where the decoder chose the same.

    What the decoder answers within the `opening` is no text. To the begin mark it answers what
    should follow: where that is one of `marks`, it is taken for what the opening has there, and
    the draft forgotten where the two differ.
    """

    def __init__(
        self,
        opening: Seq[int],
        end: int,
        forced: Seq[int],
        draft: Seq[int],
        limit: int,
        *,
        marks: Container[int] = (),
    ) -> None:
        self._end = end
        self._limit = limit
        self._forced = len(forced)
        self._fed = [*opening, *forced]
        self._marks = marks
        self._told = len(opening) - 1
        self.mark = opening[1] if len(opening) > 1 else None
        """What followed the begin mark."""
        self.first = 0.0
        """The log-probability that came with the answer to the begin mark."""
        self._draft = list(draft)
        self._offer = 0
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.margins: list[float] = []
        self.frames: list[int] = []
        self.position = 0
        self.ended = False
        self.done = False
        self._aside: list[int] = []
        self.drafted = len(self._draft)
        self.accepted = self.bonus = self.produced = self.passes = self.steps = 0
        self._extend(len(self._draft))

    def feed(self) -> list[int]:
        """Tokens for the next pass: one that is certain, then the guess to check."""
        return self._fed

    @property
    def alone(self) -> bool:
        """Whether the next pass feeds a single token: there is no guess to check."""
        return len(self._fed) == 1

    @property
    def silent(self) -> int:
        """Rows at the head of the next pass whose answers are no text."""
        return max(0, self._told - self.position)

    @property
    def guessed(self) -> int:
        """Tokens of the draft that may still come."""
        return len(self._draft) + self._offer

    @property
    def draft(self) -> tuple[int, ...]:
        """What a decode from scratch, forced as this one, could be offered now."""
        known = len(self._fed) - self._offer
        return (*self.tokens[self._forced :], *self._fed[known:], *self._draft)

    def counted(self, cost: Cost) -> Cost:
        """`cost`, and how these tokens came about."""
        return replace(
            cost,
            drafted=self.drafted,
            accepted=self.accepted,
            bonus=self.bonus,
            produced=self.produced,
            passes=self.passes,
            steps=self.steps,
        )

    def step(self) -> None:
        """Feed only the newest token next; a guess that goes with it waits."""
        if self._offer:
            known = len(self._fed) - self._offer
            self._draft[:0] = self._fed[known:]
            del self._fed[known:]
            self._offer = 0

    def take(
        self, tokens: Seq[int], logprobs: Seq[float], margins: Seq[float], frames: Seq[int]
    ) -> int:
        """The decoder's best token after each fed one; returns how many fed rows were true."""
        fed = self._fed
        known = len(fed) - self._offer
        silent = self.silent
        self.passes += 1
        self.steps += len(fed) == 1
        if not self.position:
            self.first = logprobs[0]
            if silent and tokens[0] != fed[1] and tokens[0] in self._marks:
                return self._corrected(tokens[0], known)
        for row, token in enumerate(tokens[: len(fed)]):
            if row < silent:
                continue
            follows = fed[row + 1] if row + 1 < len(fed) else None
            forced = follows is not None and row + 1 < known
            agreed = follows == token
            if forced and not agreed:
                self._emit(follows, logprobs[row] - margins[row], 0.0, frames[row])
            else:
                self._emit(token, logprobs[row], margins[row], frames[row])
            if self.done or not (forced or agreed):
                break
            self.accepted += not forced
        self.bonus += self._offer > 0
        self.position += row + 1
        refused = max(0, self._offer - max(0, row + 1 - known))
        if not self.done:
            self._draft[:0] = fed[len(fed) - refused :]
            if refused == self._offer:
                self._draft[:0] = self._aside
            self._aside = []
            self._next(refused > 0)
        return row + 1

    def follow(
        self, tokens: Seq[int], logprobs: Seq[float], margins: Seq[float], frames: Seq[int]
    ) -> int:
        """The decoder's best token after the newest, after that one, and so on, as after `step`.

        Returns how many of these were true. It is what as many calls of `step` and `take` give.
        """
        if not self.position:
            self.first = logprobs[0]
        said = list(tokens[: self._limit - len(self.tokens)])
        self.ended = self._end in said
        count = said.index(self._end) if self.ended else len(said)
        true = count + self.ended
        self.tokens += said[:count]
        self.logprobs += logprobs[:count]
        self.margins += margins[:count]
        self.frames += frames[:count]
        self.passes += true
        self.steps += true
        self.produced += true
        self.position += true
        self.done = self.ended or len(self.tokens) >= self._limit
        if not self.done:
            self._draft[:0] = self._aside
            self._aside = []
            for token in said[:-1]:
                self._skip(token)
            self._next(refused=False)
        return true

    def _corrected(self, mark: int, known: int) -> int:
        """Go on behind the begin mark with another one than was guessed."""
        self.position = 1
        self.mark = mark
        self._fed = [mark, *self._fed[2:known]]
        self._draft = []
        self._offer = 0
        return 1

    def _emit(self, token: int | None, logprob: float, margin: float, frame: int) -> None:
        assert token is not None
        self.produced += 1
        if token == self._end:
            self.ended = self.done = True
            return
        self.tokens.append(token)
        self.logprobs.append(logprob)
        self.margins.append(margin)
        self.frames.append(frame)
        self.done = len(self.tokens) >= self._limit

    def _next(self, refused: bool) -> None:
        """Feed the newest token, and the rest of the draft where it can be aligned on it.

        A token that the draft does not have is taken to stand for the refused one.
        """
        newest = self.tokens[-1]
        self._fed = [newest]
        self._offer = 0
        if self._skip(newest):
            self._extend(CHUNK)
        elif refused:
            self._aside = [self._draft.pop(0)]
            self._extend(GUESS)

    def _skip(self, token: int) -> bool:
        """Whether the token is soon in the draft, of which then goes on what follows it."""
        ahead = self._draft[:WINDOW]
        if token not in ahead:
            return False
        del self._draft[: ahead.index(token) + 1]
        return True

    def _extend(self, most: int) -> None:
        # A forced prefix takes its rows in the first pass, before its tokens are known.
        known = max(len(self.tokens), self._forced)
        offered = self._draft[: max(0, min(most, self._limit - known))]
        del self._draft[: len(offered)]
        self._fed = self._fed + offered
        self._offer = len(offered)
