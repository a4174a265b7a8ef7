"""Subtitles from finals: cues of two short lines, as SubRip (SRT) or WebVTT."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from edge_runtime.events import Final, Word

LINE = 42  # characters a viewer reads at a glance; two such lines make a cue
LONGEST = 7.0  # seconds a cue may stay
SHORTEST = 1.0  # seconds a cue stays when the next one leaves room
PAUSE = 0.8  # seconds of silence after which a new cue begins
SENTENCE_ENDS = (".", "?", "!", "…")


@dataclass(frozen=True)
class Cue:
    """One or two lines of at most `LINE` characters, shown from `start` to `end` (seconds)."""

    start: float
    end: float
    lines: tuple[str, ...]


def cues(finals: Iterable[Final]) -> list[Cue]:
    """The cues of a recording, in order and without overlap.

    Times come from the words of a final where it has them; else they are spread
    over the final in proportion to the letters.
    """
    groups = [group for final in finals for group in _groups(_pieces(final))]
    shown: list[Cue] = []
    for index, group in enumerate(groups):
        start = max(group[0].start, shown[-1].end if shown else 0.0)
        end = max(group[-1].end, start + SHORTEST)
        if index + 1 < len(groups) and groups[index + 1][0].start > start:
            end = min(end, groups[index + 1][0].start)
        shown.append(Cue(start, min(end, start + LONGEST), _lines(group)))
    return shown


def srt(shown: Iterable[Cue]) -> str:
    """The cues as SubRip."""
    blocks = [
        f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n" + "\n".join(cue.lines)
        for number, cue in enumerate(shown, 1)
    ]
    return "".join(f"{block}\n\n" for block in blocks)


def vtt(shown: Iterable[Cue]) -> str:
    """The cues as WebVTT."""
    blocks = ["WEBVTT"] + [
        f"{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}\n"
        + "\n".join(map(_escape, cue.lines))
        for cue in shown
    ]
    return "".join(f"{block}\n\n" for block in blocks)


def _pieces(final: Final) -> list[Word]:
    """The final's words with times, none longer than a line."""
    timed = list(final.words or _spread(final.text.split(), final.start, final.end, final.logprob))
    pieces: list[Word] = []
    for word in timed:
        parts = [word.text[at : at + LINE] for at in range(0, len(word.text), LINE)]
        pieces += _spread(parts, word.start, word.end, word.logprob)
    return pieces


def _spread(texts: list[str], start: float, end: float, logprob: float) -> Iterator[Word]:
    """Share `end - start` seconds among `texts` by their length, the space after each counted."""
    total = sum(len(text) + 1 for text in texts)
    at = start
    for text in texts:
        until = at + (end - start) * (len(text) + 1) / total
        yield Word(text, at, until, logprob)
        at = until


def _groups(words: list[Word]) -> Iterator[list[Word]]:
    """Words that share a cue: broken where two lines are full, at 7 s, sentences and pauses."""
    group: list[Word] = []
    for word in words:
        if group and _breaks(group, word):
            yield group
            group = []
        group.append(word)
    if group:
        yield group


def _breaks(group: list[Word], word: Word) -> bool:
    last = group[-1]
    if word.start - last.end >= PAUSE or word.end - group[0].start > LONGEST:
        return True
    if len(_wrapped([*group, word])) > 2:
        return True
    # A sentence ends its cue unless it is so short that the next one reads better beside it.
    return last.text.endswith(SENTENCE_ENDS) and sum(len(w.text) + 1 for w in group) > LINE


def _wrapped(words: list[Word], width: int = LINE) -> list[str]:
    text = " ".join(word.text for word in words)
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _lines(words: list[Word]) -> tuple[str, ...]:
    """The cue's text on one line if it fits, else on two of nearly the same length."""
    lines = _wrapped(words)
    if len(lines) < 2:
        return tuple(lines)
    for width in range((len(" ".join(lines)) + 1) // 2, LINE):
        even = _wrapped(words, width)
        if len(even) == 2 and max(map(len, even)) <= width:
            return tuple(even)
    return tuple(lines)


def _clock(seconds: float, mark: str) -> str:
    """`HH:MM:SS`, the mark, and milliseconds."""
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, milliseconds = divmod(milliseconds, 1000)
    return f"{hours:02}:{minutes:02}:{whole:02}{mark}{milliseconds:03}"


def _escape(line: str) -> str:
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
