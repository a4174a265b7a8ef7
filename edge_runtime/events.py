"""The messages of the native protocol: one frozen record for each.

Times are seconds of the client's audio, dropped audio counted; `seq` numbers
the events of one session from 1 and is set when an event is sent.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from edge_runtime.errors import ProtocolError

Encoding = Literal["pcm_s16le", "pcm_f32le", "mulaw", "alaw"]
Reason = Literal["endpoint", "flush", "cap", "stop"]
Why = Literal["mute", "push", "playback"]
Task = Literal["transcribe", "translate"]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """What the server sends; subclasses carry the fields."""

    seq: int = 0


class Word(msgspec.Struct, frozen=True):
    """One word of a final: times in seconds, mean log-probability of its tokens."""

    text: str
    start: float
    end: float
    logprob: float


class Ready(Event, frozen=True, kw_only=True, tag="ready"):
    """The session is open; `next_sample` is where the client's audio goes on."""

    session: str
    resume: str
    next_sample: int
    model: str
    device: str
    sample_rate: int


class SpeechStart(Event, frozen=True, kw_only=True, tag="speech_start"):
    """Speech was heard from `at` seconds on."""

    segment: int
    turn: int
    at: float


class Partial(Event, frozen=True, kw_only=True, tag="partial"):
    """The open segment so far: `stable + unstable` is its text, `stable` only grows."""

    segment: int
    stable: str
    unstable: str
    start: float
    end: float


class Final(Event, frozen=True, kw_only=True, tag="final"):
    """A segment's text, which begins with the last `stable` that was sent."""

    segment: int
    turn: int
    reason: Reason
    text: str
    start: float
    end: float
    logprob: float
    words: list[Word] | None = None
    alternative: str | None = None
    rejected: str | None = None
    language: str | None = None


class SpeechEnd(Event, frozen=True, kw_only=True, tag="speech_end"):
    """The turn is over; its last speech ended at `at` seconds."""

    turn: int
    at: float


class Flushed(Event, frozen=True, kw_only=True, tag="flushed"):
    """Everything sent before a `flush` has been answered."""


class Overrun(Event, frozen=True, kw_only=True, tag="overrun"):
    """A live source outran the device: this much of the oldest audio was dropped."""

    dropped_ms: int


class Warning(Event, frozen=True, kw_only=True, tag="warning"):
    """Something the client should know; the session goes on."""

    code: str
    message: str


class Error(Event, frozen=True, kw_only=True, tag="error"):
    """What went wrong and what to do about it; the connection closes next."""

    code: str
    message: str
    fix: str


class Closed(Event, frozen=True, kw_only=True, tag="closed"):
    """The last event of a session."""

    reason: str
    audio_seconds: float


AnyEvent = (
    Ready | SpeechStart | Partial | Final | SpeechEnd | Flushed | Overrun | Warning | Error | Closed
)


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Take up a parked session after the last event seen."""

    token: str
    last_seq: int = 0


class Request(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True
):
    """What a client sends as text."""


class Start(Request, frozen=True, kw_only=True, tag="start"):
    """Open a session; every field is optional."""

    encoding: Encoding = "pcm_s16le"
    sample_rate: int = 16000
    channels: int = 1
    partials: bool = True
    words: bool = False
    endpoint_ms: int = 500
    source: str | None = None
    gated: Why | None = None
    model: str | None = None
    language: str | None = None
    task: Task = "transcribe"
    resume: Resume | None = None


class Flush(Request, frozen=True, kw_only=True, tag="flush"):
    """Ask for a final now."""


class Gate(Request, frozen=True, kw_only=True, tag="gate"):
    """Hear silence from now on for this reason, or no longer; any one reason keeps it closed."""

    open: bool
    why: Why = "mute"


class Stop(Request, frozen=True, kw_only=True, tag="stop"):
    """No more audio: finish and close."""


AnyRequest = Start | Flush | Gate | Stop

_encoder = msgspec.json.Encoder()
_events = msgspec.json.Decoder(AnyEvent)
_requests = msgspec.json.Decoder(AnyRequest)


def encode(event: Event | Request) -> bytes:
    """The JSON text of an event or a request."""
    return _encoder.encode(event)


def decode_event(text: str | bytes) -> Any:
    """The event in a JSON text; raises `msgspec.ValidationError` on anything else."""
    return _events.decode(text)


def decode_request(text: str | bytes) -> Any:
    """The request in a JSON text; raises `ProtocolError` (close 1007 or 1003) with the fix."""
    try:
        return _requests.decode(text)
    except msgspec.ValidationError as error:
        raise ProtocolError(
            "bad_message",
            f"message not understood: {error}",
            'Send {"type": "start"|"flush"|"gate"|"stop", …} with the fields of the protocol page.',
            1007,
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(
            "bad_json",
            f"not a JSON message: {error}",
            "Send text messages as JSON and audio as binary messages.",
            1007,
        ) from None
