"""One client's stream, without I/O: audio and verdicts in, updates to decode and events out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from edge_runtime.audio import FRAME, RATE
from edge_runtime.audio.endpoint import Endpoint, Endpointer, Onset, Resumed, Silence, Verdict
from edge_runtime.audio.quiet import quietest
from edge_runtime.audio.ring import Ring, Samples
from edge_runtime.config import Config
from edge_runtime.decode.merge import Merger
from edge_runtime.decode.reading import Model, Reader
from edge_runtime.decode.segment import Segment
from edge_runtime.decode.update import Cost, Hypothesis, Purpose, Update
from edge_runtime.events import (
    Closed,
    Event,
    Flushed,
    Overrun,
    Reason,
    SpeechEnd,
    SpeechStart,
)


@dataclass(frozen=True)
class Options:
    """What a client asks of its session.

    `speculate` decodes as soon as speech pauses, before the endpoint is certain.
    """

    partials: bool = True
    words: bool = False
    endpoint_ms: int = 500
    speculate: bool = True


@dataclass
class Tally:
    """What happened in a session so far, in numbers; only grows."""

    overtaken: int = 0
    withheld: int = 0
    forced: int = 0
    dropped: int = 0


class Session:
    """Audio is fed, the voice detector's verdicts are heard, hypotheses are accepted.

    Each of these returns the events that follow from it, in order. `take` gives the
    update that the device should run next, if any: it asks for the newest audio at
    that moment. Nothing here waits, knows a clock or does I/O, so that a session
    can be replayed bit for bit.
    """

    def __init__(
        self, name: str, model: Model, config: Config, options: Options, ring: Ring
    ) -> None:
        self.name = name
        self.options = options
        self.ring = ring
        self.tally = Tally()
        self._reader = Reader(model, config, words=options.words)
        self._config = config
        self._endpointer = Endpointer(config.listening, options.endpoint_ms)
        self._open: Segment | None = None
        self._pending: deque[Segment] = deque()
        self._segments = self._turns = 0
        self._floor = 0
        self._hop = _samples(config.updating.hop_ms)
        self._flight: Update | None = None
        self._stopped = False
        self.closed = False

    # -- audio

    @property
    def heard_samples(self) -> int:
        """Up to where the voice detector has judged the audio."""
        return self._endpointer.heard_samples

    @property
    def due(self) -> int:
        """How many whole frames wait for the voice detector."""
        return (self.ring.written - self.heard_samples) // FRAME

    @property
    def room(self) -> int:
        """Samples that can be fed before any that are still needed would be overwritten."""
        return self.ring.capacity - (self.ring.written - self._needed())

    def feed(self, samples: Samples) -> list[Event]:
        """Append 16 kHz mono float32 samples. More than `room` costs the oldest (`overrun`).

        After `stop` nothing is taken in.
        """
        if self._stopped:
            return []
        needed = max(self._needed(), self.ring.oldest)
        self.ring.write(samples)
        lost = self.ring.oldest - needed
        return self._lose(lost) if lost > 0 else []

    def frame(self) -> Samples:
        """The next 512 samples for the voice detector; `due` must be positive."""
        at = self.heard_samples
        return self.ring.read(at, at + FRAME)

    def heard(self, probability: float) -> list[Event]:
        """Take in how probable speech is in the frame that `frame` gave."""
        events: list[Event] = []
        for verdict in self._endpointer.heard(probability):
            events += self._turn(verdict)
        segment = self._open
        if segment and self.heard_samples - segment.start >= _samples(
            self._config.listening.cap_ms
        ):
            events += self._cut(segment)
        return events

    def flush(self) -> list[Event]:
        """Close the open segment now; `Flushed` follows its final. After `stop` there is none."""
        if self._stopped:
            return []
        return self._finish("flush") + self._later(Flushed())

    def stop(self, reason: str = "stop") -> list[Event]:
        """No more audio: close the open segment; `Closed` is the last event."""
        if self._stopped:
            return []
        self._stopped = True
        events = self._finish("stop")
        seconds = round(self.ring.written / RATE, 3)
        return events + self._later(Closed(reason=reason, audio_seconds=seconds))

    def abandon(self, reason: str) -> list[Event]:
        """End at once, without the finals that are still to come."""
        if self.closed:
            return []
        self._stopped = self.closed = True
        self._open = None
        self._pending.clear()
        seconds = round(self.ring.written / RATE, 3)
        return [Closed(reason=reason, audio_seconds=seconds)]

    # -- decoding

    @property
    def waiting(self) -> int:
        """Closed segments whose final is still to be decoded."""
        return sum(segment.result is None for segment in self._pending)

    @property
    def wants(self) -> Purpose | None:
        """What the device should do for this session next, if anything."""
        if any(not segment.in_flight for segment in self._pending):
            return Purpose.FINAL
        segment = self._open
        if segment is None or self._flight is not None or self._pending:
            return None
        if self._endpointer.last <= segment.spoken:  # nothing was said since the cut
            return None
        if segment.paused is not None:
            new = self.options.speculate and segment.covered != segment.paused
            return Purpose.SPECULATIVE if new and segment.start < segment.paused else None
        behind = self.heard_samples - max(segment.start, segment.covered, segment.spoken)
        if self.options.partials and not self._endpointer.silent and behind >= self._hop:
            return Purpose.PARTIAL
        return None

    def take(self) -> Update | None:
        """The update that `wants` announced; it counts as in flight until `accept`."""
        purpose = self.wants
        if purpose is None:
            return None
        if purpose is Purpose.FINAL:
            segment = next(s for s in self._pending if not s.in_flight)
            segment.in_flight = True
            end = segment.end
        else:
            assert self._open is not None
            segment = self._open
            end = self.heard_samples if purpose is Purpose.PARTIAL else segment.paused
        assert end is not None
        update = self._update(segment, purpose, end)
        if purpose is not Purpose.FINAL:
            self._flight = update
        return update

    def accept(self, hypothesis: Hypothesis) -> list[Event]:
        """Take in what was decoded for an update that `take` gave."""
        if self.closed:
            return []
        update = hypothesis.update
        segment = self._find(update.segment)
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
        if segment is not self._open:
            return []
        events = self._partial(segment, hypothesis)
        self._hop = self._next_hop(segment, hypothesis.cost)
        return events

    def _next_hop(self, segment: Segment, cost: Cost) -> int:
        """Samples until the next partial: short until something is shown, then by the cost."""
        updating = self._config.updating
        if not segment.shown:
            return _samples(updating.retry_ms)
        return max(_samples(updating.hop_ms), int(updating.hop_factor * cost.busy * RATE))

    def lost(self, update: Update) -> list[Event]:
        """The device failed at an update: the segment goes on, a final comes out empty."""
        if update.purpose is Purpose.FINAL:
            return self.accept(_nothing(update))
        self._flight = None
        segment = self._find(update.segment)
        if segment is not None:
            segment.covered = update.end
            if update.purpose is Purpose.SPECULATIVE and update.end == segment.end:
                segment.in_flight = False  # it was to be the final
        return []

    def _update(self, segment: Segment, purpose: Purpose, end: int) -> Update:
        seconds = (end - segment.start) / RATE
        limit = int(self._reader.model.shape.tokens_per_second * seconds) + 6
        return Update(
            session=self.name,
            segment=segment.number,
            purpose=purpose,
            start=segment.start,
            end=end,
            # Without partials the text depends on the audio alone, to the last bit.
            draft=segment.draft if self.options.partials else (),
            forced=segment.merger.prefix if segment.forced else (),
            align=self.options.words and purpose is not Purpose.PARTIAL,
            limit=limit,
        )

    # -- turns and segments

    def _turn(self, verdict: Verdict) -> list[Event]:
        segment = self._open
        if isinstance(verdict, Onset):
            self._turns += 1
            padded = verdict.at - _samples(self._config.listening.padding_ms)
            # A flush may have ended within the frame that speech goes on in.
            at = max(verdict.at, self._floor)
            self._begin(max(padded, self._floor, self.ring.oldest), at)
            start = SpeechStart(segment=self._segments, turn=self._turns, at=_seconds(at))
            return self._later(start)
        if isinstance(verdict, Silence) and segment:
            segment.paused = min(verdict.last + self._tail, self.heard_samples)
        elif isinstance(verdict, Resumed) and segment:
            self.tally.overtaken += segment.covered == segment.paused
            segment.paused = None
        elif isinstance(verdict, Endpoint) and segment:
            events = self._close(segment, verdict.last + self._tail, "endpoint", verdict.last)
            return events + self._later(SpeechEnd(turn=self._turns, at=_seconds(verdict.last)))
        return []

    @property
    def _tail(self) -> int:
        return _samples(self._config.listening.tail_ms)

    def _begin(self, start: int, spoken: int) -> None:
        self._segments += 1
        self._hop = _samples(self._config.updating.first_ms)
        self._open = Segment(
            self._segments, self._turns, start, spoken, Merger(self._config.updating)
        )

    def _close(self, segment: Segment, end: int, reason: Reason, last: int) -> list[Event]:
        """End a segment; it is decoded unless that exact window has been already."""
        self._open = None
        self._floor = end
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

    def _gone(self, segment: Segment) -> list[Event]:
        """An overrun took all audio of a closed segment: what was stable is its text."""
        segment.forced = True
        return self._concluded(
            segment, _nothing(self._update(segment, Purpose.FINAL, segment.start))
        )

    def _cut(self, segment: Segment) -> list[Event]:
        """Past the length cap: close at the quietest place, go on from there in the same turn."""
        heard = self.heard_samples
        begin = max(segment.start + RATE, heard - _samples(self._config.listening.search_ms))
        at = begin + quietest(self.ring.read(begin, heard))
        last = self._endpointer.last
        paused = segment.paused
        events = self._close(segment, at, "cap", min(last, at))
        self._begin(at, at)
        if paused is not None and self._open and last > at:
            self._open.paused = paused
        return events

    def _finish(self, reason: Reason) -> list[Event]:
        """Close the open segment with all audio there is, or at its last speech if it paused."""
        segment = self._open
        last, silent = self._endpointer.last, self._endpointer.silent
        self._endpointer.restart()
        if segment is None:
            return []
        end = self.ring.written
        if segment.paused is not None:
            end = segment.paused
        elif not silent:  # else the length cap has cut in this pause, and nothing followed
            last = end
        events = self._close(segment, end, reason, last)
        return events + self._later(SpeechEnd(turn=segment.turn, at=_seconds(last)))

    # -- events

    def _later(self, event: Event) -> list[Event]:
        """`event` now, or after the finals that are still to come."""
        if self._pending:
            self._pending[-1].after.append(event)
            return []
        self.closed = self.closed or isinstance(event, Closed)
        return [event]

    def _partial(self, segment: Segment, hypothesis: Hypothesis) -> list[Event]:
        if not self.options.partials:
            return []
        before = segment.merger.conflicts
        partial = self._reader.partial(segment, hypothesis)
        self.tally.withheld += segment.merger.conflicts - before
        if partial is None:
            return []
        segment.shown = True
        return [partial]

    def _concluded(self, segment: Segment, hypothesis: Hypothesis) -> list[Event]:
        """A segment's last hypothesis: decoded again, once, if it takes back stable text."""
        if not segment.forced and not self._reader.agrees(segment, hypothesis):
            segment.forced, segment.in_flight = True, False
            vocabulary = self._reader.model.vocabulary
            segment.alternative = vocabulary.text(hypothesis.tokens)
            segment.draft = ()
            self.tally.forced += 1
            assert segment.end is not None
            return self._gone(segment) if segment.end <= segment.start else []
        segment.in_flight = True
        segment.result = hypothesis
        events: list[Event] = []
        while self._pending and self._pending[0].result is not None:
            first = self._pending.popleft()
            events += [self._reader.final(first), *first.after]
        self.closed = self.closed or any(isinstance(event, Closed) for event in events)
        return events

    # -- what must be kept

    def _find(self, number: int) -> Segment | None:
        if self._open and self._open.number == number:
            return self._open
        return next((s for s in self._pending if s.number == number), None)

    def _needed(self) -> int:
        """The oldest sample that something still to come may read."""
        if self._pending:
            return self._pending[0].start
        if self._open:
            return self._open.start
        onset = self._endpointer.onset_pending
        at = self.heard_samples if onset is None else onset
        padded = max(0, self._floor, at - _samples(self._config.listening.padding_ms))
        # A flush may have ended within the frame that is heard next.
        return min(self.heard_samples, padded)

    def _lose(self, samples: int) -> list[Event]:
        """Go on after the ring overwrote audio: windows begin where there still is some."""
        oldest = self.ring.oldest
        for segment in [*self._pending, *([self._open] if self._open else [])]:
            segment.start = max(segment.start, oldest)
        behind = oldest - self.heard_samples
        if behind > 0:
            self._endpointer.skip(behind)
        self.tally.dropped += samples
        events: list[Event] = [Overrun(dropped_ms=samples * 1000 // RATE)]
        for segment in list(self._pending):
            if not segment.in_flight and segment.end is not None and segment.end <= segment.start:
                events += self._gone(segment)
        return events


def longest(config: Config) -> int:
    """Samples of the longest window that a session asks to be decoded, and a second to spare."""
    listening = config.listening
    return _samples(listening.cap_ms + listening.padding_ms + 1000)


def _nothing(update: Update) -> Hypothesis:
    """What a decode of silence gives."""
    return Hypothesis(update, (), (), (), (), True, 0)


def _samples(milliseconds: int) -> int:
    return milliseconds * RATE // 1000


def _seconds(samples: int) -> float:
    return round(samples / RATE, 3)
