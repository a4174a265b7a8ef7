"""One client's stream, without I/O: audio and verdicts in, updates to decode and events out."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from edge_runtime.audio import FRAME, RATE
from edge_runtime.audio.endpoint import Endpoint, Endpointer, Onset, Resumed, Silence, Verdict
from edge_runtime.audio.quiet import quietest
from edge_runtime.audio.ring import Ring, Samples
from edge_runtime.audio.spoken import Spoken
from edge_runtime.config import CAP_MS_MIN, Config
from edge_runtime.decode.prompt import TRANSCRIBE
from edge_runtime.decode.reading import Model, Reader
from edge_runtime.decode.segment import Segment
from edge_runtime.decode.segments import Segments, Tally
from edge_runtime.decode.update import Hypothesis, Purpose, Update
from edge_runtime.events import (
    Closed,
    Event,
    Flushed,
    Overrun,
    Reason,
    SpeechEnd,
    SpeechStart,
)

UNSAID = 3 * RATE // 2
"""Samples of speech behind a text's end from which on the text is taken to have left them out: a
number in figures may take one second more than its last token looked at."""

REACH = RATE // 2
"""Samples behind a text's last mark in which the pause that ends its last word is looked for; and
what the text must have heard at least, so that what it left out is shorter each time."""


@dataclass(frozen=True)
class Options:
    """What a client asks of its session.

    `speculate` decodes as soon as speech pauses, before the endpoint is certain. `live`: somebody
    speaks into it; a recording is decoded beside such sessions, and never before their finals.
    A multilingual model is told the `language`, or finds it out where that is empty; `task` is what
    it makes of it.
    """

    partials: bool = True
    words: bool = False
    endpoint_ms: int = 500
    speculate: bool = True
    live: bool = True
    language: str = ""
    task: str = TRANSCRIBE


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
        self._listening = config.listening
        self._endpointer = Endpointer(config.listening, options.endpoint_ms)
        self._spoken = Spoken()
        self._reader = Reader(model, config, words=options.words)
        self._segments = Segments(
            name,
            self._reader,
            config.updating,
            partials=options.partials,
            speculate=options.speculate,
            language=options.language,
            languages=config.serving.spoken,
            task=options.task,
            rest=self._rest,
        )
        self._turns = 0
        self._floor = 0
        self._headroom = 0
        self._stopped = False

    @property
    def closed(self) -> bool:
        """`Closed` was given: nothing more will come."""
        return self._segments.closed

    @property
    def tally(self) -> Tally:
        """What happened so far, in numbers."""
        return self._segments.tally

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

    def frames(self, most: int = 1) -> Samples:
        """The next frames of 512 samples for the voice detector, as far as they are `due`."""
        at = self.heard_samples
        return self.ring.read(at, at + min(self.due, most) * FRAME)

    def heard(self, probability: float) -> list[Event]:
        """Take in how probable speech is in the next frame, one of those that `frames` gave."""
        events: list[Event] = []
        spoken = probability >= self._listening.threshold
        if spoken and self._spoken.frame(self.heard_samples):
            self._spoken.forget(self._needed())
        for verdict in self._endpointer.heard(probability):
            events += self._turn(verdict)
        segment = self._segments.open
        if segment and self.heard_samples - segment.start >= _samples(self._listening.cap_ms):
            events += self._cut(segment)
        return events

    def flush(self) -> list[Event]:
        """Close the open segment now; `Flushed` follows its final. After `stop` there is none."""
        if self._stopped:
            return []
        return self._finish("flush") + self._segments.later(Flushed())

    def stop(self, reason: str = "stop") -> list[Event]:
        """No more audio: close the open segment; `Closed` is the last event."""
        if self._stopped:
            return []
        self._stopped = True
        events = self._finish("stop")
        return events + self._segments.later(self._closed(reason))

    def abandon(self, reason: str) -> list[Event]:
        """End at once, without the finals that are still to come."""
        if self.closed:
            return []
        self._stopped = True
        self._segments.abandon()
        return [self._closed(reason)]

    def _closed(self, reason: str) -> Closed:
        return Closed(reason=reason, audio_seconds=_seconds(self.ring.written))

    # -- decoding

    def pace(self, hop: float) -> None:
        """Ask for partials `hop` times as seldom from now on, inf for none; finals come as ever."""
        self._segments.pace = hop

    @property
    def speaking(self) -> bool:
        """Somebody speaks, and wants to see it while it is said."""
        return self.options.partials and self._segments.open is not None

    @property
    def waiting(self) -> int:
        """Closed segments whose final is still to be decoded."""
        return self._segments.waiting

    @property
    def wants(self) -> Purpose | None:
        """What the device should do for this session next, if anything."""
        hearing = self._endpointer
        return self._segments.wants(hearing.heard_samples, hearing.last, silent=hearing.silent)

    def samples(self, purpose: Purpose) -> int:
        """How much audio is to be decoded for what it `wants`, by now."""
        return self._segments.samples(purpose, self.heard_samples)

    @property
    def resumes(self) -> bool:
        """An update that is given back loses nothing of what it came to."""
        return self._segments.resumes

    @property
    def at_rest(self) -> bool:
        """All that was fed was heard, and of that nothing is to be decoded, or is being."""
        return not self.due and self.wants is None and self._segments.at_rest

    def take(self) -> Update | None:
        """The update that `wants` announced; it counts as in flight until `accept`."""
        purpose = self.wants
        if purpose is None:
            return None
        safe = self.ring.written + self._headroom - self.ring.capacity
        return self._segments.take(purpose, self.heard_samples, safe)

    def accept(self, hypothesis: Hypothesis) -> list[Event]:
        """Take in what was decoded for an update that `take` gave.

        Where its audio was overwritten meanwhile, nobody knows what was decoded: a final is
        wanted again, of what there still is.
        """
        update = hypothesis.update
        if self.ring.holds(update.start):
            return self._segments.accept(hypothesis)
        if self._segments.awaits(update):
            # While audio is being lost, windows begin with as much to spare as this one lacked.
            self._headroom += (self.ring.oldest - update.start) * 3 // 2
        return self._segments.overwritten(update)

    def lost(self, update: Update, *, again: bool = True) -> list[Event]:
        """The device failed at an update: the segment goes on.

        A final is tried once more where `again` makes sense, and comes out empty after that.
        """
        return self._segments.lost(update, again=again)

    def give_back(self, update: Update, draft: tuple[int, ...] = ()) -> list[Event]:
        """An update was not run to its end: it, or what takes its place by now, is wanted again.

        With the `draft`, where it has come to one.
        """
        return self._segments.give_back(update, draft)

    # -- turns and segments

    def _turn(self, verdict: Verdict) -> list[Event]:
        segment = self._segments.open
        if isinstance(verdict, Onset):
            self._turns += 1
            padded = verdict.at - self._padding
            # A flush may have ended within the frame that speech goes on in.
            at = max(verdict.at, self._floor)
            start = max(padded, self._floor, self.ring.oldest)
            number = self._segments.begin(self._turns, start, at).number
            return self._segments.later(
                SpeechStart(segment=number, turn=self._turns, at=_seconds(at))
            )
        if isinstance(verdict, Silence) and segment:
            segment.paused = min(verdict.last + self._tail, self.heard_samples)
        elif isinstance(verdict, Resumed) and segment:
            self._segments.resumed(segment)
        elif isinstance(verdict, Endpoint) and segment:
            events = self._close(segment, verdict.last + self._tail, "endpoint", verdict.last)
            return events + self._segments.later(self._speech_end(segment, verdict.last))
        return []

    @property
    def _tail(self) -> int:
        return _samples(self._listening.tail_ms)

    @property
    def _padding(self) -> int:
        return _samples(self._listening.padding_ms)

    def _close(self, segment: Segment, end: int, reason: Reason, last: int) -> list[Event]:
        """End a segment; no later one begins before its `end`."""
        self._floor = max(self._floor, end)
        return self._segments.close(segment, end, reason, last)

    def _cut(self, segment: Segment) -> list[Event]:
        """Past the length cap: close at the quietest place, go on from there in the same turn."""
        heard = self.heard_samples
        begin = max(segment.start + RATE, heard - _samples(self._listening.search_ms))
        at = begin + quietest(self.ring.read(begin, heard))
        last = self._endpointer.last
        paused = segment.paused
        events = self._close(segment, at, "cap", min(last, at))
        rest = self._segments.begin(segment.turn, at, at)
        if paused is not None and last > at:
            rest.paused = paused
        return events

    def _rest(self, hypothesis: Hypothesis, last: int) -> int | None:
        """The sample in the pause behind a text that ended before all up to `last` was said.

        Whisper's greedy text may end with a sentence although another one follows.
        """
        ending = self._reader.ending(hypothesis)
        if ending is None:
            return None
        word, mark = ending
        if self._spoken.samples(mark, last) < UNSAID or not self.ring.holds(word):
            return None
        at = word + quietest(self.ring.read(word, mark + REACH))
        return at if at >= hypothesis.update.start + REACH else None

    def _finish(self, reason: Reason) -> list[Event]:
        """Close the open segment with all audio there is, or at its last speech if it paused."""
        segment = self._segments.open
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
        return events + self._segments.later(self._speech_end(segment, last))

    @staticmethod
    def _speech_end(segment: Segment, last: int) -> SpeechEnd:
        return SpeechEnd(turn=segment.turn, at=_seconds(last))

    # -- what must be kept

    def _needed(self) -> int:
        """The oldest sample that something still to come may read."""
        oldest = self._segments.oldest
        if oldest is not None:
            return oldest
        onset = self._endpointer.onset_pending
        at = self.heard_samples if onset is None else onset
        padded = max(0, self._floor, at - self._padding)
        # A flush may have ended within the frame that is heard next.
        return min(self.heard_samples, padded)

    def _lose(self, samples: int) -> list[Event]:
        """Go on after the ring overwrote audio: windows begin where there still is some."""
        behind = self.ring.oldest - self.heard_samples
        if behind > 0:
            self._endpointer.skip(behind)
        self.tally.dropped += samples
        events: list[Event] = [Overrun(dropped_ms=samples * 1000 // RATE)]
        return events + self._segments.lose(self.ring.oldest)


def longest(config: Config) -> int:
    """Samples of the longest window that a session asks to be decoded, and a second to spare."""
    return _window(config, config.listening.cap_ms)


def shortest(config: Config) -> int:
    """The same where segments are capped as short as they can be."""
    return _window(config, CAP_MS_MIN)


def fitting(config: Config, samples: int) -> Config:
    """The settings with the cap lowered to where no window is longer than `samples`.

    Raises `ConfigError` for fewer than `shortest`.
    """
    spare = longest(config) - samples
    if spare <= 0:
        return config
    listening = config.listening
    cap = listening.cap_ms + -spare * 1000 // RATE
    listening = msgspec.structs.replace(
        listening, cap_ms=cap, search_ms=min(listening.search_ms, cap // 2)
    )
    return msgspec.structs.replace(config, listening=listening)


def _window(config: Config, cap_ms: int) -> int:
    return _samples(cap_ms + config.listening.padding_ms + 1000)


def _samples(milliseconds: int) -> int:
    return milliseconds * RATE // 1000


def _seconds(samples: int) -> float:
    return round(samples / RATE, 3)
