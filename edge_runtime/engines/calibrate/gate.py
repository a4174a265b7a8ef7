"""Whether a quantised model may take the place of its original: judged on texts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_runtime import words
from edge_runtime.errors import CalibrationError

MAX_WER_INCREASE = 0.3
"""Points of word error rate that a quantised model may lose."""

ENOUGH = 2000
"""Words of hold-out below which the verdict says that it rests on little."""

_DRAWS = 10_000
_CHUNK = 500
_WORST = 10


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One hold-out clip: the unquantised model's text and the quantised one's.

    `transcript` is None where it is not known, and "" where nobody speaks.
    """

    name: str
    seconds: float
    original: str
    quantised: str
    transcript: str | None = None

    @property
    def reference(self) -> str:
        """What both texts are held against: the transcript, else the unquantised text."""
        return self.original if self.transcript is None else self.transcript


class Judged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One clip's errors against its reference of `words` words; `changed` words of the original.

    Where the reference is empty the errors are the words written on non-speech.
    """

    outcome: Outcome
    words: int
    errors_original: int
    errors_quantised: int
    changed: int

    @property
    def lost(self) -> int:
        """Errors that quantising added."""
        return self.errors_quantised - self.errors_original


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`reasons` say why it did not pass, `notes` what to keep in mind; rates are percents.

    `increase` is the difference of the two rates in points and `low` to `high` its 95 %
    interval; `changed` words of `original_words` differ between the texts themselves. With
    `transcribed` false no transcript was known: the unquantised texts were the reference.
    """

    passed: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    max_wer_increase: float
    clips: int
    minutes: float
    words: int
    transcribed: bool
    wer_original: float
    wer_quantised: float
    increase: float
    low: float
    high: float
    original_words: int
    changed: int
    speechless_clips: int
    speechless_original: int
    speechless_quantised: int
    worst: tuple[Judged, ...]

    @property
    def changed_percent(self) -> float:
        """Words that differ, in percent of the unquantised text's."""
        return _percent(self.changed, self.original_words)


def judge(
    outcomes: Sequence[Outcome],
    max_wer_increase: float = MAX_WER_INCREASE,
    *,
    share: float = 1.0,
    seed: int = 0,
) -> Verdict:
    """The verdict over the hold-out; the same for the same texts and seed.

    It does not pass when the rate grew by more than `max_wer_increase` points, when more
    words are written on non-speech, or when there is nothing to judge by. A clip whose
    reference has no words is non-speech. `share` is the hold-out's part of all audio: it
    turns words that are missing into minutes to record. Raises `CalibrationError` for a name
    that occurs twice.
    """
    names = [outcome.name for outcome in outcomes]
    if len(set(names)) < len(names):
        raise CalibrationError("two clips of the hold-out have the same name")
    judged = [_judged(outcome) for outcome in outcomes]
    speech = [each for each in judged if each.words]
    rest = [each for each in judged if not each.words]
    total = sum(each.words for each in speech)
    before = sum(each.errors_original for each in speech)
    after = sum(each.errors_quantised for each in speech)
    low, high = interval(
        np.array([each.lost for each in speech]), np.array([each.words for each in speech]), seed
    )
    verdict = Verdict(
        passed=False,
        reasons=(),
        notes=(),
        max_wer_increase=max_wer_increase,
        clips=len(speech),
        minutes=sum(each.outcome.seconds for each in speech) / 60,
        words=total,
        transcribed=any(each.outcome.transcript is not None for each in speech),
        wer_original=_percent(before, total),
        wer_quantised=_percent(after, total),
        increase=_percent(after - before, total),
        low=low,
        high=high,
        original_words=sum(len(words.normalised(o.original)) for o in outcomes),
        changed=sum(each.changed for each in judged),
        speechless_clips=len(rest),
        speechless_original=sum(each.errors_original for each in rest),
        speechless_quantised=sum(each.errors_quantised for each in rest),
        worst=_worst(judged),
    )
    reasons = _reasons(verdict)
    return msgspec.structs.replace(
        verdict, passed=not reasons, reasons=reasons, notes=_notes(verdict, share, len(judged))
    )


def interval(
    lost: NDArray[np.int64], words: NDArray[np.int64], seed: int = 0, draws: int = _DRAWS
) -> tuple[float, float]:
    """The 95 % interval of 100 × Σ lost / Σ words, by drawing clips with replacement.

    Both are (clips,); the pairs stay together (a paired bootstrap). Source: M. Bisani and
    H. Ney, "Bootstrap estimates for confidence intervals in ASR performance evaluation",
    ICASSP 2004. Fewer than two clips say nothing: the interval is then the value itself.
    """
    if len(words) < 2:
        value = _percent(float(lost.sum()), float(words.sum()))
        return value, value
    random = np.random.default_rng(seed)
    found = []
    # in pieces: all draws of a thousand clips would take 80 MB
    for start in range(0, draws, _CHUNK):
        picked = random.integers(0, len(words), (min(_CHUNK, draws - start), len(words)))
        found.append(100.0 * lost[picked].sum(axis=1) / words[picked].sum(axis=1))
    low, high = np.percentile(np.concatenate(found), [2.5, 97.5])
    return float(low), float(high)


def _judged(outcome: Outcome) -> Judged:
    before = words.score(outcome.reference, outcome.original)
    after = words.score(outcome.reference, outcome.quantised)
    changed = words.score(outcome.original, outcome.quantised)
    return Judged(outcome, after.words, before.errors, after.errors, changed.errors)


def _worst(judged: Sequence[Judged]) -> tuple[Judged, ...]:
    """The clips that changed, those that lost most first."""
    changed = [each for each in judged if each.changed or each.lost]
    changed.sort(key=lambda each: (-each.lost, -each.changed, each.outcome.name))
    return tuple(changed[:_WORST])


def _reasons(verdict: Verdict) -> tuple[str, ...]:
    found = []
    if not verdict.words:
        found.append("the hold-out has no words to judge by")
    # a float's rounding is no reason
    if verdict.increase > verdict.max_wer_increase + 1e-9:
        what = "the word error rate grew by" if verdict.transcribed else "the texts differ by"
        found.append(
            f"{what} {verdict.increase:.2f} points (95 % interval {verdict.low:+.2f} to "
            f"{verdict.high:+.2f}), and {verdict.max_wer_increase:.2f} are allowed"
        )
    if verdict.speechless_quantised > verdict.speechless_original:
        found.append(
            f"words written where nobody speaks: {verdict.speechless_quantised}, and "
            f"{verdict.speechless_original} by the unquantised model"
        )
    return tuple(found)


def _notes(verdict: Verdict, share: float, clips: int) -> tuple[str, ...]:
    found = []
    if not verdict.transcribed:
        found.append(
            "no transcripts: the unquantised model's text is the reference, so that a word which "
            "became right counts as wrong"
        )
    if verdict.words < ENOUGH:
        found.append(_little(verdict, share))
    if verdict.increase <= verdict.max_wer_increase < verdict.high:
        found.append(
            f"the interval reaches {verdict.high:+.2f} points: more than is allowed cannot be "
            "excluded"
        )
    if verdict.speechless_clips == 0 and clips:
        found.append("the hold-out has no recording without speech: words on noise were not tried")
    return tuple(found)


def _little(verdict: Verdict, share: float) -> str:
    said = f"{verdict.words:,} words of hold-out are little to judge by"
    if not verdict.words or not verdict.minutes:
        return said
    missing = (ENOUGH - verdict.words) / (verdict.words / verdict.minutes) / share
    return f"{said}: about {math.ceil(missing)} more minutes of such audio would do"


def _percent(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole else 0.0
