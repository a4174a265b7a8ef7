"""Every event and request survives the way to JSON and back."""

from __future__ import annotations

import json
import typing

import msgspec
import pytest

from edge_runtime import events
from edge_runtime.errors import ProtocolError


def leaves(record):
    """Every class below `record` that is sent, found by itself."""
    below = record.__subclasses__()
    return [record] if not below else [leaf for child in below for leaf in leaves(child)]


EVENTS = leaves(events.Event)
REQUESTS = leaves(events.Request)


def samples(kind):
    """Values of a field's type, one of each alternative, none of them a default."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return list(arguments)
    if origin is list:
        return [[value] for value in samples(arguments[0])]
    if arguments:  # a union
        return [value for argument in arguments for value in samples(argument)]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return filled(kind)
    return {
        int: [7], float: [1.25], str: ["früh „x“\n\U0001f600"], bool: [True, False],
        type(None): [None],
    }[kind]  # fmt: skip


def filled(record):
    """Records with every field set, so that each sample of each field occurs."""
    hints = typing.get_type_hints(record)
    fields = {name: samples(hints[name]) for name in record.__struct_fields__}
    rounds = max((len(values) for values in fields.values()), default=1)
    return [
        record(**{name: values[turn % len(values)] for name, values in fields.items()})
        for turn in range(rounds)
    ]


def test_they_are_found():
    assert {event.__struct_config__.tag for event in EVENTS} == {
        "ready", "speech_start", "partial", "final", "speech_end", "flushed", "overrun",
        "warning", "error", "closed",
    }  # fmt: skip
    assert {request.__struct_config__.tag for request in REQUESTS} == {
        "start", "flush", "gate", "stop",
    }  # fmt: skip
    assert set(EVENTS) == set(typing.get_args(events.AnyEvent))
    assert set(REQUESTS) == set(typing.get_args(events.AnyRequest))


@pytest.mark.parametrize("event", [e for kind in EVENTS for e in filled(kind)], ids=repr)
def test_an_event_round_trips(event):
    text = events.encode(event)
    assert events.decode_event(text) == event
    assert events.decode_event(text.decode()) == event
    assert json.loads(text)["type"] == type(event).__struct_config__.tag
    assert json.loads(text)["seq"] == 7


@pytest.mark.parametrize("request_", [r for kind in REQUESTS for r in filled(kind)], ids=repr)
def test_a_request_round_trips(request_):
    assert events.decode_request(events.encode(request_)) == request_


def test_what_is_not_given_is_not_sent():
    final = events.Final(
        seq=1, segment=0, turn=0, reason="stop", text="", start=0.0, end=0.0, logprob=0.0
    )
    assert set(json.loads(events.encode(final))) == {
        "type", "seq", "segment", "turn", "reason", "text", "start", "end", "logprob",
    }  # fmt: skip


def test_all_fields_of_start_but_its_type_are_optional():
    assert events.decode_request(b'{"type":"start"}') == events.Start(
        encoding="pcm_s16le", sample_rate=16000, channels=1, partials=True, words=False,
        endpoint_ms=500, source=None, gated=None, resume=None,
    )  # fmt: skip


def test_events_cannot_be_changed():
    with pytest.raises(AttributeError):
        events.Flushed().seq = 3


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b'{"type":"start","x":1}', "bad_message"),
        (b'{"type":"stop","seq":1}', "bad_message"),
        (b'{"type":"partial"}', "bad_message"),
        (b"", "bad_json"),
        (b"\xff", "bad_json"),
        (b"{]", "bad_json"),
    ],
)
def test_other_messages_are_refused(text, code):
    with pytest.raises(ProtocolError) as caught:
        events.decode_request(text)
    assert (caught.value.code, caught.value.close_code) == (code, 1007)
    assert caught.value.fix
