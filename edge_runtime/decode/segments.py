"""The segments of one stream: what of them to decode next, and what comes of the hypotheses."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edge_runtime.config import Updating
from edge_runtime.decode.merge import Merger
from edge_runtime.decode.prompt import TRANSCRIBE
from edge_runtime.decode.reading import Reader
from edge_runtime.decode.segment import Segment
from edge_runtime.decode.update import Hypothesis, Purpose, Update, limit
from edge_runtime.events import Closed, Event, Reason


@dataclass
class Tally:
    """What happened in a session so far, in numbers; only grows."""

    overtaken: int = 0
    withheld: int = 0
    forced: int = 0
    dropped: int = 0


class Segments:
    """One segment may be open, others wait for their finals; these come in order.

    Where segments begin and end is decided elsewhere, from the voice detector. An event
    given to `later` follows the finals that wait at that moment.
    """

    def __init__(  # noqa: PLR0913 - what a stream's updates are told each
        self,
        session: str,
        reader: Reader,
        updating: Updating,
        *,
        partials: bool,
        speculate: bool,
        language: str = "",
        languages: Sequence[str] = (),
        task: str = TRANSCRIBE,
        rest: Callable[[Hypothesis, int], int | None],
    ) -> None:
        """Where no `language` is told, it is one of `languages` that the model knows, or any.

        `rest` tells where audio that a hypothesis left out begins, given where its segment's
        speech ended; `None` where it has all.
        """
        self.open: Segment | None = None
        self.closed = False
        self.tally = Tally()
        self.pace = 1.0
        """Times as long as hops are made, inf for no partials: a device that is hot, or has too
        much to do, is asked less often."""
        self._session = session
        self._reader = reader
        self._rate = reader.model.shape.rate
        self._updating = updating
        self._partials = partials
        self._speculate = speculate
        among = tuple(name for name in languages if name in reader.model.languages)
        self._language = language or (among[0] if len(among) == 1 else "")
        self._languages = () if self._language else among
        self._task = task
        self._rest = rest
        self._heard = self._languages[0] if self._languages else ""
        self._pending: deque[Segment] = deque()
        self._number = 0
        self._hop = 0
        self._flight: Update | None = None

    @property
    def waiting(self) -> int:
        """Closed segments whose final is still to be decoded."""
        return sum(not segment.concluded for segment in self._pending)

    @property
    def at_rest(self) -> bool:
        """Nothing is being decoded, and no final is still to come."""
        return self._flight is None and not self._pending

    @property
    def resumes(self) -> bool:
        """A decode that is broken off can go on where it was: drafts are used, in one language."""
        return self._partials and bool(self._language or len(self._reader.model.languages) == 1)

    @property
    def oldest(self) -> int | None:
        """The first sample that one of them may still read, `None` where there is no segment."""
        if self._pending:
            return self._pending[0].start
        return self.open.start if self.open else None

    # -- from the first to the last sample

    def begin(self, turn: int, start: int, spoken: int) -> Segment:
        """Open a segment of `turn` whose window begins at `start`, its speech at `spoken`."""
        self._number += 1
        self._hop = self._samples(self._updating.first_ms)
        self.open = Segment(self._number, turn, start, spoken, self._merger())
        return self.open

    def _merger(self) -> Merger:
        return Merger(self._updating, grows=self._reader.model.shape.grows)

    def resumed(self, segment: Segment) -> None:
        """Speech goes on after a pause."""
        self.tally.overtaken += segment.covered == segment.paused
        segment.paused = None

    def close(self, segment: Segment, end: int, reason: Reason, last: int) -> list[Event]:
        """End the open segment; it is decoded unless that exact window has been already.

        Where no speech was heard in it, up to its `last`, nothing comes of it.
        """
        self.open = None
        if last <= segment.spoken:
            return []
        segment.end, segment.reason, segment.last = end, reason, min(last, end)
        self._pending.append(segment)
        if end <= segment.start:
            return self._gone(segment)
        done = segment.speculation
        if done is not None and done.update.end == end:
            segment.in_flight = True
            return self._concluded(segment, done)
        # A speculation of this very window may be under way: its result is the final.
        flight = self._flight
        segment.in_flight = (
            flight is not None
            and flight.purpose is Purpose.SPECULATIVE
            and (flight.segment, flight.end) == (segment.number, end)
        )
        return []

    def later(self, event: Event) -> list[Event]:
        """`event` now, or after the finals that are still to come."""
        if self._pending:
            self._pending[-1].after.append(event)
            return []
        self.closed = self.closed or isinstance(event, Closed)
        return [event]

    def abandon(self) -> None:
        """Let go of all, finals that are still to come included."""
        self.closed = True
        self.open = None
        self._pending.clear()

    def lose(self, oldest: int) -> list[Event]:
        """Audio before `oldest` is overwritten: windows begin where there still is some."""
        for segment in [*self._pending, *([self.open] if self.open else [])]:
            segment.start = max(segment.start, oldest)
        events: list[Event] = []
        for segment in list(self._pending):
            if not segment.in_flight and segment.end is not None and segment.end <= segment.start:
                events += self._gone(segment)
        return events

    # -- what to decode

    def wants(self, heard: int, last: int, *, silent: bool) -> Purpose | None:
        """What the device should do next, if anything.

        The audio was heard up to `heard`, speech in it up to `last`; `silent` in a pause.
        """
        if any(not segment.in_flight for segment in self._pending):
            return Purpose.FINAL
        segment = self.open
        if segment is None or self._flight is not None or self._pending:
            return None
        if last <= segment.spoken:  # nothing was said since the cut
            return None
        if segment.paused is not None:
            new = self._speculate and segment.covered != segment.paused
            return Purpose.SPECULATIVE if new and segment.start < segment.paused else None
        behind = heard - max(segment.start, segment.covered, segment.spoken)
        if self._partials and not silent and behind >= self.pace * self._hop:
            return Purpose.PARTIAL
        return None

    def samples(self, purpose: Purpose, heard: int) -> int:
        """How much audio is to be heard for what `take` would give now, at most.

        A model whose text only grows hears none of it again.
        """
        segment, end = self._window(purpose, heard)
        begin = segment.start
        if self._reader.model.shape.grows:
            begin = max(begin, segment.covered)
        return max(0, end - begin)

    def _window(self, purpose: Purpose, heard: int) -> tuple[Segment, int]:
        """The segment that is decoded for that purpose, and where its audio ends."""
        if purpose is Purpose.FINAL:
            segment = next(each for each in self._pending if not each.in_flight)
            end = segment.end
        else:
            assert self.open is not None
            segment = self.open
            end = heard if purpose is Purpose.PARTIAL else segment.paused
        assert end is not None
        return segment, end

    def take(self, purpose: Purpose, heard: int, safe: int) -> Update:
        """The update that `wants` announced; it counts as in flight until `accept`.

        Audio before `safe` may be overwritten before it is read: it is left out, at most a half.
        """
        segment, end = self._window(purpose, heard)
        segment.in_flight = segment.in_flight or purpose is Purpose.FINAL
        segment.start = max(segment.start, min(safe, (segment.start + end) // 2))
        update = self._update(segment, purpose, end)
        if purpose is not Purpose.FINAL:
            self._flight = update
        return update

    def _update(self, segment: Segment, purpose: Purpose, end: int) -> Update:
        seconds = (end - segment.start) / self._rate
        forced = segment.merger.prefix if segment.forced and not segment.parts else ()
        spoken = self._reader.model.shape.tokens_per_second * seconds
        # A final is in one language.
        heard = segment.parts[0].language if segment.parts else ""
        return Update(
            session=self._session,
            segment=segment.number,
            purpose=purpose,
            start=segment.start,
            end=end,
            # Without partials the text depends on the audio alone, to the last bit.
            draft=segment.draft if self._partials else (),
            forced=forced,
            align=self._reader.words and purpose is not Purpose.PARTIAL,
            # An overrun can leave less audio than the stable words had.
            limit=limit(max(spoken, len(forced))),
            language=self._language or heard,
            guess=self._heard,
            languages=self._languages,
            task=self._task,
        )

    # -- what comes of it

    def accept(self, hypothesis: Hypothesis) -> list[Event]:
        """Take in what was decoded for an update that `take` gave."""
        if self.closed:
            return []
        update = hypothesis.update
        segment = self._find(update.segment)
        # What was spoken last is likely what is spoken next.
        self._heard = hypothesis.language or self._heard
        if update.purpose is Purpose.FINAL:
            assert segment is not None
            segment.in_flight = False
            return self._concluded(segment, hypothesis)
        self._flight = None
        if segment is None:
            return []
        if update.purpose is Purpose.SPECULATIVE:
            if update.end == segment.end:
                return self._concluded(segment, hypothesis)
            segment.speculation = hypothesis
            self.tally.overtaken += segment.paused != update.end
        segment.draft = hypothesis.tokens
        segment.covered = update.end
        if segment is not self.open:
            return []
        events = self._partial(segment, hypothesis)
        self._hop = self._next_hop(segment, hypothesis)
        return events

    def lost(self, update: Update, *, again: bool = True) -> list[Event]:
        """The device failed at an update: the segment goes on.

        A final is tried once more where `again` makes sense, and comes out empty after that.
        """
        segment = self._find(update.segment)
        if update.purpose is Purpose.FINAL:
            if segment is None or segment.failed or not again:
                return self.accept(_nothing(update))
            segment.failed = True
            return self.give_back(update)
        if segment is not None:
            segment.covered = update.end
        return self.give_back(update)

    def awaits(self, update: Update) -> bool:
        """Whether its segment is still to come to an end: else nobody needs its audio any more."""
        return self._find(update.segment) is not None

    def overwritten(self, update: Update) -> list[Event]:
        """Its audio went before it was decoded: a final is due again, of what there still is."""
        return self.give_back(update) if update.purpose is Purpose.FINAL else self.lost(update)

    def give_back(self, update: Update, draft: tuple[int, ...] = ()) -> list[Event]:
        """What `take` gave will not be decoded, through no fault of its own: it is due again.

        With the `draft`, where the decode has come to one.
        """
        if self.closed:
            return []
        segment = self._find(update.segment)
        if segment is not None and draft:
            segment.draft = draft
        if update.purpose is not Purpose.FINAL:
            self._flight = None
        # Its own final may be under way, of a window that ends where a partial's did.
        if segment is None or update.end != segment.end or update.purpose is Purpose.PARTIAL:
            return []
        segment.in_flight = False
        return self._gone(segment) if update.end <= segment.start else []

    def _next_hop(self, segment: Segment, hypothesis: Hypothesis) -> int:
        """Samples until the next partial: short until something is shown, then by the cost.

        A model that takes chunks is asked once there is another one, however short that is.
        """
        updating, cost = self._updating, hypothesis.cost
        if hypothesis.next_at:
            chunk = hypothesis.next_at - hypothesis.update.end
            return max(chunk, int(updating.hop_factor * cost.busy * self._rate))
        if not segment.shown:
            return self._samples(updating.retry_ms)
        return max(
            self._samples(updating.hop_ms), int(updating.hop_factor * cost.busy * self._rate)
        )

    def _partial(self, segment: Segment, hypothesis: Hypothesis) -> list[Event]:
        if not self._partials:
            return []
        before = segment.merger.conflicts
        partial = self._reader.partial(segment, hypothesis)
        self.tally.withheld += segment.merger.conflicts - before
        if partial is None:
            return []
        segment.shown = True
        return [partial]

    def _concluded(self, segment: Segment, hypothesis: Hypothesis) -> list[Event]:
        """A segment's last hypothesis: decoded again, once, if it takes back stable text.

        Where it left out what was said last, that is decoded by itself: a shorter window each time.
        """
        agrees = bool(segment.parts) or self._reader.agrees(segment, hypothesis)
        if not agrees and not segment.forced:
            segment.forced, segment.in_flight = True, False
            vocabulary = self._reader.model.vocabulary
            segment.alternative = vocabulary.text(hypothesis.tokens)
            segment.draft = ()
            self.tally.forced += 1
            assert segment.end is not None
            return self._gone(segment) if segment.end <= segment.start else []
        segment.parts.append(hypothesis)
        rest = self._rest(hypothesis, segment.last) if agrees else None
        if rest is not None:
            segment.start, segment.draft = max(segment.start, rest), ()
            segment.in_flight = segment.failed = False
            return []
        segment.in_flight = segment.concluded = True
        events: list[Event] = []
        while self._pending and self._pending[0].concluded:
            first = self._pending.popleft()
            events += [self._reader.final(first), *first.after]
        self.closed = self.closed or any(isinstance(event, Closed) for event in events)
        return events

    def _gone(self, segment: Segment) -> list[Event]:
        """An overrun took all audio of a closed segment: what was stable is its text."""
        segment.forced = True
        return self._concluded(
            segment, _nothing(self._update(segment, Purpose.FINAL, segment.start))
        )

    def _find(self, number: int) -> Segment | None:
        if self.open and self.open.number == number:
            return self.open
        return next((s for s in self._pending if s.number == number), None)

    def _samples(self, milliseconds: int) -> int:
        return milliseconds * self._rate // 1000


def _nothing(update: Update) -> Hypothesis:
    """What a decode of silence gives."""
    return Hypothesis(update, (), (), (), (), True, 0)
