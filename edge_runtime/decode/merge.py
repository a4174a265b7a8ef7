"""The output merger: turns successive hypotheses of a segment into text that only grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edge_runtime.config import Updating
from edge_runtime.decode.guards import without_loop
from edge_runtime.decode.scripts import unspaced
from edge_runtime.decode.tokens import Span, letters


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
    follow it; when every token of it has at least `stable_logprob` and leads the
    second best by `stable_margin`; when at least `stable_after_ms` of the segment
    was heard (what is said of less is often sure and wrong); and when it was
    spoken before `until`. Texts agree when
    their letters and digits do: spelling and punctuation come from the
    hypothesis that makes a word stable, the last one's closing punctuation later.
    Of a model whose text only `grows` a word is stable once another one follows it: its tokens
    are never taken back.
    """

    def __init__(self, rule: Updating, *, grows: bool = False) -> None:
        self._rule = rule
        self._grows = grows
        self._seen: list[_Seen] = []
        self._tokens: tuple[int, ...] = ()
        self.stable = ""
        self.conflicts = 0

    @property
    def prefix(self) -> tuple[int, ...]:
        """The tokens that stand for `stable`, to force a decode with."""
        return self._tokens

    def partial(
        self,
        spans: Sequence[Span],
        tokens: Sequence[int],
        heard: float,
        until: float = float("inf"),
        *,
        ended: bool = True,
        eager: float = 0.0,
    ) -> Shown | None:
        """Take in a hypothesis of the first `heard` seconds of the segment.

        `until` bounds the encoder frame of words that may become stable; `ended`
        tells whether the end mark was reached; `eager`, above 0, shows less sure words.
        `None`: it contradicts stable text.
        """
        self._remember(spans, heard)
        if not self.agrees(spans):
            self.conflicts += 1
            return None
        self._lock(spans, tokens, heard, until)
        least = self._rule.eager_logprob * eager if eager else self._rule.tail_logprob
        return Shown(self.stable, self._tail(spans, ended, least))

    def agrees(self, spans: Sequence[Span]) -> bool:
        """Whether `spans` begin with the stable words, spelling and punctuation aside."""
        return _rest(_text(spans), self.stable) is not None

    def final(self, spans: Sequence[Span]) -> str:
        """The whole text for hypothesis words that agree: `stable`, then the rest of them."""
        return self.stable + (_rest(_text(spans), self.stable) or "")

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

    def _lock(
        self, spans: Sequence[Span], tokens: Sequence[int], heard: float, until: float
    ) -> None:
        count = self._covered(spans)
        ready = count
        held_back = 1 if self._grows else self._rule.held_back
        while ready < len(spans) - held_back and self._sure(
            spans[ready], self._seen[ready], heard, until
        ):
            ready += 1
        if ready == count:
            return
        last = spans[ready - 1]
        text = _text([*spans[: ready - 1], replace(last, text=last.bare)])
        self.stable += _rest(text, self.stable) or ""
        self._tokens = tuple(tokens[: last.bare_last])

    def _covered(self, spans: Sequence[Span]) -> int:
        """How many words `stable` covers; all of them where it ends inside one."""
        wanted, found = len(letters(self.stable)), 0
        for count, span in enumerate(spans):
            if found >= wanted:
                return count if found == wanted else len(spans)
            found += len(letters(span.text))
        return len(spans)

    def _sure(self, span: Span, seen: _Seen, heard: float, until: float) -> bool:
        rule = self._rule
        if self._grows:
            return span.frame <= until and bool(letters(span.text))
        return (
            seen.times >= 2
            and heard - seen.since >= rule.stable_ms / 1000 - 1e-6
            and heard >= rule.stable_after_ms / 1000
            and span.weakest >= rule.stable_logprob
            and span.margin >= rule.stable_margin
            and span.frame <= until
            and bool(letters(span.text))
        )

    def _tail(self, spans: Sequence[Span], ended: bool, least: float) -> str:
        """The unstable text: no loops, no weak last words, none that a cut-off decode ran into."""
        shown = without_loop(list(spans))
        if not ended:
            shown = shown[:-2]
        while not self._grows and shown and shown[-1].logprob < least:
            shown.pop()
        return _rest(_text(shown), self.stable) or ""


def _text(spans: Sequence[Span]) -> str:
    joined = "".join(" " + span.text if span.spaced else span.text for span in spans)
    return joined.removeprefix(" ")


def _rest(text: str, stable: str) -> str | None:
    """What `text` adds to `stable`; `None` where its letters differ, or go on inside a word."""
    wanted, found = letters(stable), 0
    for end, character in enumerate(text):
        if found == len(wanted):
            within = character.isalnum() or character in "'\u2019"
            within = within and not unspaced(character)
            return None if wanted and within else text[end:]
        folded = letters(character)
        if not wanted.startswith(folded, found):
            return None
        found += len(folded)
    return "" if found == len(wanted) else None
