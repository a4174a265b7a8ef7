"""Texts compared word by word: error rate, lost words, doubled words."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

Operation = Literal["equal", "substitute", "delete", "insert"]


@functools.cache
def _normaliser() -> Callable[[str], str]:
    from whisper_normalizer.english import EnglishTextNormalizer

    normaliser: Callable[[str], str] = EnglishTextNormalizer()
    return normaliser


def normalised(text: str) -> list[str]:
    """The words of a text after whisper-normalizer's English rules."""
    return _normaliser()(text).split()


@dataclass(frozen=True)
class Score:
    """Errors against a reference of `words` words."""

    words: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def errors(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """Word error rate in percent; infinite for insertions into nothing."""
        if not self.words:
            return float("inf") if self.errors else 0.0
        return 100.0 * self.errors / self.words

    @property
    def deleted(self) -> float:
        """Deletions in percent of the reference's words."""
        return 100.0 * self.deletions / self.words if self.words else 0.0

    def __add__(self, other: Score) -> Score:
        return Score(
            self.words + other.words,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )


@dataclass(frozen=True)
class Step:
    """One operation of an alignment, with the indices of its words (−1: none)."""

    operation: Operation
    reference: int
    hypothesis: int


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Step]:
    """The cheapest way from one list of words to the other (jiwer's alignment)."""
    if not reference:
        return [Step("insert", -1, j) for j in range(len(hypothesis))]
    if not hypothesis:
        return [Step("delete", i, -1) for i in range(len(reference))]
    import jiwer

    as_they_are: Any = jiwer.Compose([jiwer.ReduceToListOfListOfWords()])
    output = jiwer.process_words(
        " ".join(reference), " ".join(hypothesis), as_they_are, as_they_are
    )
    steps: list[Step] = []
    for chunk in output.alignments[0]:
        operation: Any = chunk.type
        length = max(
            chunk.ref_end_idx - chunk.ref_start_idx, chunk.hyp_end_idx - chunk.hyp_start_idx
        )
        steps += [
            Step(
                operation,
                -1 if operation == "insert" else chunk.ref_start_idx + k,
                -1 if operation == "delete" else chunk.hyp_start_idx + k,
            )
            for k in range(length)
        ]
    return steps


def score(reference: str, hypothesis: str) -> Score:
    """Errors of one text against its transcript, both normalised."""
    wanted, got = normalised(reference), normalised(hypothesis)
    steps = [step.operation for step in align(wanted, got)]
    return Score(
        len(wanted), steps.count("substitute"), steps.count("delete"), steps.count("insert")
    )


def total(pairs: Sequence[tuple[str, str]]) -> Score:
    """The sum over (reference, hypothesis) pairs: the rate of a set, weighted by words."""
    return sum((score(reference, hypothesis) for reference, hypothesis in pairs), Score())


def matched(reference: Sequence[str], hypothesis: Sequence[str]) -> list[tuple[int, int]]:
    """Index pairs of the words that the alignment finds equal."""
    return [
        (step.reference, step.hypothesis)
        for step in align(reference, hypothesis)
        if step.operation == "equal"
    ]


def dropped(reference: str, hypothesis: str) -> list[str]:
    """The reference's words that the alignment finds deleted (not those it finds changed)."""
    wanted = normalised(reference)
    return [wanted[i] for i in _deleted(wanted, normalised(hypothesis))]


def lost(reference: str, whole: str, hypothesis: str) -> list[str]:
    """Words of the transcript that one decode has right and another drops."""
    wanted = normalised(reference)
    right = {i for i, _ in matched(wanted, normalised(whole))}
    return [wanted[i] for i in _deleted(wanted, normalised(hypothesis)) if i in right]


def _deleted(reference: Sequence[str], hypothesis: Sequence[str]) -> list[int]:
    return [step.reference for step in align(reference, hypothesis) if step.operation == "delete"]


def doubled(reference: str, pieces: Sequence[str], longest: int = 3) -> list[str]:
    """Words said once but written on both sides of a cut between two pieces.

    At a cut, the last k words before and the first k words after are the same
    (k ≤ `longest`), and the alignment of the whole text to its reference calls
    at least k of those 2k words insertions.
    """
    parts = [normalised(piece) for piece in pieces]
    steps = align(normalised(reference), [word for part in parts for word in part])
    inserted = {step.hypothesis for step in steps if step.operation == "insert"}
    found: list[str] = []
    cut = 0
    for before, after in pairwise(parts):
        cut += len(before)
        for k in range(min(longest, len(before), len(after)), 0, -1):
            if before[-k:] == after[:k] and len(inserted & set(range(cut - k, cut + k))) >= k:
                found += after[:k]
                break
    return found
