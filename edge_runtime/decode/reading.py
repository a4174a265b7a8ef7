"""What a hypothesis says: the words in it, whether to believe them, the event that tells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from edge_runtime.config import Config
from edge_runtime.decode import align, guards
from edge_runtime.decode.chunked.shape import ChunkShape
from edge_runtime.decode.growing.shape import GrowingShape
from edge_runtime.decode.prompt import TRANSCRIBE
from edge_runtime.decode.scripts import unspaced
from edge_runtime.decode.segment import Segment
from edge_runtime.decode.shape import ModelShape
from edge_runtime.decode.tokens import Span, Vocabulary
from edge_runtime.decode.update import Hypothesis, Update
from edge_runtime.errors import LanguageError
from edge_runtime.events import Final, Partial, Word

_BEARABLE = (None, "loop", "logprob")
"""Verdicts that keep no partial back: its tail is cut where it loops or is weak."""


@dataclass(frozen=True)
class Model:
    """What a session must know of the model that decodes its audio."""

    shape: ModelShape | ChunkShape | GrowingShape
    vocabulary: Vocabulary
    languages: tuple[str, ...] = ("en",)

    @property
    def tasks(self) -> tuple[str, ...]:
        """What it makes of speech, `TRANSCRIBE` first."""
        told = self.shape.prompt.tasks if isinstance(self.shape, ModelShape) else {}
        return tuple({TRANSCRIBE: 0} | told)

    def check(self, language: str, task: str) -> None:
        """Raises `LanguageError` for a language or a task that the model does not know."""
        if language and language not in self.languages:
            raise LanguageError(
                f"the model does not understand {language[:20]!r}",
                f"Leave the language out, or choose one of {', '.join(self.languages)}.",
            )
        if task not in self.tasks:
            raise LanguageError(
                f"the model cannot {task[:20]}",
                f"Leave the task out, or use {', '.join(self.tasks)}.",
            )


class Reader:
    """Turns hypotheses of a model into partials and finals; holds no state of a stream."""

    def __init__(self, model: Model, config: Config, *, words: bool) -> None:
        """`words` asks for the times of a final's words."""
        self.model = model
        # A model of small pieces says more of them.
        least = max(config.guarding.tokens_per_second, model.shape.tokens_per_second)
        self._guarding = msgspec.structs.replace(config.guarding, tokens_per_second=least)
        self._first = config.updating.first_ms * model.shape.rate / 1000
        self.words = words
        listening = config.listening
        # What was said after this encoder frame may yet fall to the next segment.
        safe = (listening.cap_ms - listening.search_ms) / 1000
        self._until = safe / model.shape.frame_seconds

    def agrees(self, segment: Segment, hypothesis: Hypothesis) -> bool:
        """Whether the hypothesis takes back nothing that is stable."""
        return segment.merger.agrees(self._spans(hypothesis))

    def partial(self, segment: Segment, hypothesis: Hypothesis) -> Partial | None:
        """What to show of the open segment, `None` for nothing; its merger takes the words in."""
        update = hypothesis.update
        seconds = (update.end - update.start) / self.model.shape.rate
        spans = self._spans(hypothesis)
        text = self.model.vocabulary.text(hypothesis.tokens)
        if self._verdict(text, spans, hypothesis) not in _BEARABLE:
            return None
        shown = segment.merger.partial(
            spans,
            hypothesis.tokens,
            seconds,
            self._until,
            ended=hypothesis.ended,
            eager=self._eager(segment, update),
        )
        if shown is None or not shown.stable + shown.unstable:
            return None
        return Partial(
            segment=segment.number,
            stable=shown.stable,
            unstable=shown.unstable,
            start=self._seconds(max(update.start, segment.spoken)),
            end=self._seconds(update.end),
        )

    def _eager(self, segment: Segment, update: Update) -> float:
        """0 once something was shown; before, 1 at the first update, more with each later one.

        The longer a listener waits for a first word, the less sure it must be.
        """
        if segment.shown:
            return 0.0
        return max(1.0, (update.end - segment.spoken) / self._first) ** 2

    def final(self, segment: Segment) -> Final:
        """The final of a closed segment that has all its parts."""
        hypothesis, merger = segment.parts[0], segment.merger
        update = hypothesis.update
        spans = self._spans(hypothesis)
        if merger.agrees(spans):
            text = merger.final(spans)
        else:  # forced, and the last stable word was gone on with: "See" became "Seeing"
            tail = self.model.vocabulary.tail(hypothesis.tokens, len(merger.prefix))
            text = merger.stable + tail
        rejected = self._verdict(text, spans, hypothesis)
        parts = [hypothesis, *filter(self._believed, segment.parts[1:])]
        for rest in parts[1:]:
            said = self.model.vocabulary.text(rest.tokens)
            text += said if unspaced(said[0]) else f" {said}"
        sure = [logprob for part in parts for logprob in part.logprobs]
        return Final(
            segment=segment.number,
            turn=segment.turn,
            reason=segment.reason,
            text=text if rejected is None else merger.stable,
            start=self._seconds(min(max(update.start, segment.spoken), segment.last)),
            end=self._seconds(segment.last),
            logprob=round(math.fsum(sure) / len(sure), 3) if sure else 0.0,
            words=self._times(parts) if self.words and not rejected else None,
            alternative=segment.alternative,
            rejected=rejected,
            language=hypothesis.language or None,
        )

    def ending(self, hypothesis: Hypothesis) -> tuple[int, int] | None:
        """Where in the audio a text that ended by itself has its last word, and its last mark.

        In absolute samples; `None` for a text that is empty, cut off or not believed, and of a
        model that hears no audio again.
        """
        if self.model.shape.grows or not hypothesis.ended or not self._believed(hypothesis):
            return None
        word = self._spans(hypothesis)[-1]
        start, step = hypothesis.update.start, self.model.shape.frame_seconds
        # A last token may look back to where the audio begins.
        heard = (max(hypothesis.frames[: word.bare_last]), max(hypothesis.frames))
        at, until = (start + round(frame * step * self.model.shape.rate) for frame in heard)
        return at, until

    def _believed(self, hypothesis: Hypothesis) -> bool:
        """Whether it says anything, and nothing speaks against it."""
        text, spans = self.model.vocabulary.text(hypothesis.tokens), self._spans(hypothesis)
        return bool(text and spans) and self._verdict(text, spans, hypothesis) is None

    def _times(self, parts: Sequence[Hypothesis]) -> list[Word]:
        """The words of all parts; what a part has heard ends where the next one begins."""
        ends = [*(self._seconds(part.update.start) for part in parts[1:]), math.inf]
        return [
            msgspec.structs.replace(word, start=min(word.start, end), end=min(word.end, end))
            for part, end in zip(parts, ends, strict=True)
            for word in self._timed(part, self._spans(part))
        ]

    def _timed(self, hypothesis: Hypothesis, spans: list[Span]) -> list[Word]:
        frame = self.model.shape.frame_seconds
        if self.model.shape.grows:
            times = align.spoken_times(spans, hypothesis.frames, frame)
        elif hypothesis.align is None:
            return []
        else:
            times = align.word_times(spans, hypothesis.align, frame)
        offset = hypothesis.update.start / self.model.shape.rate
        return [
            Word(
                span.text, round(offset + start, 3), round(offset + end, 3), round(span.logprob, 3)
            )
            for span, (start, end) in zip(spans, times, strict=True)
        ]

    def _spans(self, hypothesis: Hypothesis) -> list[Span]:
        return self.model.vocabulary.words(
            hypothesis.tokens, hypothesis.logprobs, hypothesis.margins, hypothesis.frames
        )

    def _verdict(self, text: str, spans: list[Span], hypothesis: Hypothesis) -> str | None:
        # The audio that was decoded: the segment's own may have gone since.
        update = hypothesis.update
        seconds = (update.end - update.start) / self.model.shape.rate
        return guards.verdict(
            text,
            spans,
            hypothesis.logprobs,
            seconds,
            self._guarding,
            self._written(hypothesis),
            hypothesis.silence,
        )

    def _written(self, hypothesis: Hypothesis) -> Sequence[str]:
        """The languages that its text may be in."""
        if hypothesis.update.task != TRANSCRIBE:
            return ("en",)
        return (hypothesis.language,) if hypothesis.language else self.model.languages

    def _seconds(self, samples: int) -> float:
        return round(samples / self.model.shape.rate, 3)
