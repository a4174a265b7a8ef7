"""What a dialect is: a translator between a client's messages and the native protocol's records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import msgspec

from edge_runtime.errors import ProtocolError
from edge_runtime.events import Event, Flush, Gate, Start, Stop


class Answer(msgspec.Struct, frozen=True):
    """What a dialect says to a message, when the events before it are out; `what` is its own.

    `seq` is set as that of an event is, and means nothing.
    """

    what: Any
    seq: int = 0


Act = bytes | Start | Flush | Gate | Stop | Answer
"""What a message asks for: audio to hear, a native request, or something to say."""

Said = Event | Answer
"""What comes out of a session, in its order."""

Wire = str | bytes
"""A message to the client: text or binary."""

Way = Literal["bearer", "token", "pair", "prefix", "query"]
"""Where a client may put an API key: `server.door` says what each of these is."""


@dataclass(frozen=True)
class Asked:
    """The HTTP request that a connection began with.

    `query` and `headers` map names to values (headers without regard to case), `protocols`
    are the subprotocols that the client offers. `model` is what the server runs and `languages`
    what it understands; `models` has the languages of all that are served, by name, and
    `translators` are those that translate, the default first. `chosen` is the model where the
    client chose one of these.
    """

    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    protocols: Sequence[str] = ()
    model: str = ""
    languages: Sequence[str] = ()
    models: Mapping[str, Sequence[str]] = field(default_factory=dict)
    translators: Sequence[str] = ()
    chosen: str | None = None

    def of(self, name: str | None) -> Asked:
        """The same, of the model that a client names, where one so called is served.

        Any other name changes nothing: clients name the models of those they were written for.
        """
        if name is None or name not in self.models:
            return self
        return replace(self, model=name, languages=self.models[name], chosen=name)

    def translating(self) -> Asked | None:
        """The same, of a model that translates: the chosen one, or where none is chosen the first.

        None where it does not, or none does.
        """
        if self.chosen is None and self.translators:
            return self.of(self.translators[0])
        return self if self.chosen in self.translators else None

    def spoken(self, language: str | None) -> str | None:
        """What a session is told to hear, of what a client says: None to find it out.

        There is nothing to tell a model of one language.
        """
        if not language or len(self.languages) < 2:
            return None
        plain = language.lower().replace("_", "-").partition("-")[0]
        return plain if plain in self.languages else None


class Dialect:
    """One connection's translator, without I/O; `read`, `hear` and `write` may keep state.

    Of all acts, one is a `Start`: it opens the session, and only an `Answer` may come before it.
    A `ProtocolError` that is raised ends the session as in the native protocol: finals first,
    then `write` gets an `Error`, then the connection closes.
    """

    name: ClassVar[str]
    """The label of its figures."""

    begin: ClassVar[str]
    """How to begin: the fix for a client that does not."""

    patient: ClassVar[bool] = True
    """A client may be as long silent before its session opens as within it."""

    lull: ClassVar[float | None] = None
    """Seconds without a message after which what was heard gets its final: for clients that fall
    silent at the end of a file, and say so only when they have its text."""

    again: ClassVar[bool] = False
    """After a `Stop` and its `Closed`, a client may begin another session on the connection."""

    silence: ClassVar[float | None] = None
    """Seconds without a message that end a session; None: as many as the server is set to."""

    ways: ClassVar[tuple[Way, ...]] = ("bearer", "query")
    """Where its clients put an API key."""

    protocols: ClassVar[tuple[str, ...]] = ()
    """The WebSocket subprotocols that may be agreed on."""

    def __init__(self, asked: Asked) -> None:
        """Raises `ProtocolError` for what the request asks and there is not (HTTP 400)."""
        self.asked = asked

    @staticmethod
    def complaint(error: ProtocolError) -> dict[str, Any]:
        """The JSON that says over HTTP what is wrong."""
        return {
            "type": "error",
            "code": error.code,
            "message": error.message,
            "fix": error.fix,
        }

    def hello(self) -> list[Act]:
        """What happens before the client says anything."""
        return []

    def silent(self) -> ProtocolError | None:
        """What is said to a client that was silent for too long; None: its session just ends."""
        return None

    def read(self, text: bytes) -> list[Act]:
        """What a text message asks for; raises `ProtocolError`."""
        raise NotImplementedError

    def hear(self, data: bytes) -> list[Act]:
        """What a binary message asks for: audio, unless a dialect says otherwise."""
        return [data]

    def write(self, said: Said) -> list[Wire]:
        """What the client is told of an event or an answer; often nothing."""
        raise NotImplementedError


class Framed(Dialect):
    """One that is spoken on a plain connection, and carries no key.

    A message is a line, as long as `line` bytes, and what follows it; `read` gets both.
    """

    line: ClassVar[int] = 1 << 16

    service: ClassVar[str]
    """The type by which it is announced to the network (DNS-SD)."""

    @staticmethod
    def following(line: bytes) -> int:
        """Bytes of the message that follow its line; raises `ProtocolError`."""
        raise NotImplementedError
