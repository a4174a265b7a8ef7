"""The native protocol: `GET /v1/stream`, a WebSocket of JSON events and binary audio."""

from __future__ import annotations

from edge_runtime.dialects import Act, Answer, Dialect, Said, Wire
from edge_runtime.errors import ProtocolError
from edge_runtime.events import Start, encode
from edge_runtime.server import requests

PATH = "/v1/stream"


class Native(Dialect):
    """Requests and events as they are."""

    name = "native"
    begin = 'Send {"type":"start"} as the first message, then audio.'
    patient = False
    ways = ("bearer", "prefix", "query")
    protocols = ("edge-runtime",)

    _started = False

    def read(self, text: bytes) -> list[Act]:
        """The request; raises `ProtocolError`, also where it is out of order."""
        request = requests.read(text)
        if isinstance(request, Start) and self._started:
            raise ProtocolError(
                "already_started",
                "a second start message",
                "Open another connection for another session.",
            )
        if not isinstance(request, Start) and not self._started:
            raise _start_first("the first message is not a start message")
        self._started = True
        return [request]

    def hear(self, data: bytes) -> list[Act]:
        """Audio; raises `ProtocolError` before the start message."""
        if not self._started:
            raise _start_first("audio came before the start message")
        return [data]

    def write(self, said: Said) -> list[Wire]:
        """The event's JSON."""
        assert not isinstance(said, Answer), "every message of this protocol is an event"
        return [encode(said).decode()]


def _start_first(message: str) -> ProtocolError:
    return ProtocolError("start_first", message, Native.begin)
