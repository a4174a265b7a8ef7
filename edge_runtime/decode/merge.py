"""The output merger: turns successive hypotheses of a segment into text that only grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edge_runtime.config import Updating
from edge_runtime.decode.guards import without_loop
from edge_runtime.decode.tokens import Span


@dataclass(frozen=True)
class Shown:
    """What a partial says: `stable + unstable` is the text so far."""

    stable: str
    unstable: str


@dataclass
class _Seen:
    """A word of the newest hypothesis: since when (seconds of audio), and how often in a row."""

    key: str
    since: float
    times: int


class Merger:
    """Stable and unstable text of one segment.

    A word becomes stable when it stood unchanged, with all words before it, in
    successive hypotheses over `stable_ms` of audio; when `held_back` words
    follow it; when no token of it or of the words before was less sure than
    `stable_logprob`; and when it was spoken before `until`. Words agree when
    their letters and digits do: spelling and punctuation come from the
    hypothesis that makes them stable, the last one's closing punctuation later.
    """

    def __init__(self, rule: Updating) -> None:
        self._rule = rule
        self._seen: list[_Seen] = []
        self._locked: list[Span] = []
        self._tokens: tuple[int, ...] = ()
        self.stable = ""
        self.conflicts = 0

    @property
    def prefix(self) -> tuple[int, ...]:
        """The tokens that stand for `stable`, to force a decode with."""
        return self._tokens

    @property
    def words(self) -> int:
        """How many words are stable."""
        return len(self._locked)

    def partial(self, spans: Sequence[Span], tokens: Sequence[int], heard: float,
                until: float = float("inf"), ended: bool = True) -> Shown | None:
        """Take in a hypothesis of the first `heard` seconds of the segment.

        `until` bounds the encoder frame of words that may become stable; `ended`
        tells whether the end mark was reached. `None`: it contradicts stable text.
        """
        self._remember(spans, heard)
        if not self.agrees(spans):
            self.conflicts += 1
            return None
        self._lock(spans, tokens, heard, until)
        return Shown(self.stable, self._tail(spans, ended))

    def agrees(self, spans: Sequence[Span]) -> bool:
        """Whether `spans` begin with the stable words, spelling and punctuation aside."""
        count = len(self._locked)
        return [s.key for s in spans[:count]] == [s.key for s in self._locked]

    def final(self, spans: Sequence[Span]) -> str:
        """The whole text for hypothesis words that agree: `stable`, then the rest of them."""
        return self.stable + _after(spans, len(self._locked))

    def _remember(self, spans: Sequence[Span], heard: float) -> None:
        seen: list[_Seen] = []
        same = True
        for index, span in enumerate(spans):
            same = same and index < len(self._seen) and self._seen[index].key == span.key
            if same:
                old = self._seen[index]
                seen.append(_Seen(span.key, old.since, old.times + 1))
            else:
                seen.append(_Seen(span.key, heard, 1))
        self._seen = seen

    def _lock(self, spans: Sequence[Span], tokens: Sequence[int], heard: float, until: float
              ) -> None:
        count = len(self._locked)
        last = len(spans) - self._rule.held_back
        ready = count
        while ready < last and self._sure(spans[ready], self._seen[ready], heard, until):
            ready += 1
        if ready == count:
            return
        fresh = spans[count:ready]
        if count:
            self.stable += _closing(spans[count - 1]) + " "
        self.stable += " ".join([*(span.text for span in fresh[:-1]), fresh[-1].bare])
        self._locked.extend(fresh)
        self._tokens = tuple(tokens[: spans[ready - 1].bare_last])

    def _sure(self, span: Span, seen: _Seen, heard: float, until: float) -> bool:
        rule = self._rule
        return (
            seen.times >= 2
            and heard - seen.since >= rule.stable_ms / 1000 - 1e-6
            and span.weakest >= rule.stable_logprob
            and span.frame <= until
        )

    def _tail(self, spans: Sequence[Span], ended: bool) -> str:
        """The unstable text: without loops, weak last words, and words a cut-off decode ran into."""
        count = len(self._locked)
        shown = without_loop(list(spans))
        if not ended:
            shown = shown[: max(count, len(shown) - 2)]
        while len(shown) > count and shown[-1].logprob < self._rule.tail_logprob:
            shown.pop()
        return _after(shown, count)


def _after(spans: Sequence[Span], count: int) -> str:
    """The text after the first `count` words, the last of which shows only its bare form."""
    rest = " ".join(span.text for span in spans[count:])
    if not count:
        return rest
    closing = _closing(spans[count - 1]) if count <= len(spans) else ""
    return f"{closing} {rest}" if rest else closing


def _closing(span: Span) -> str:
    return span.text[len(span.bare) :]

