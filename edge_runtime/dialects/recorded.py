"""What a dialect of whole recordings is: fields of a request in, the body of an answer out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from edge_runtime.dialects.base import Asked, Dialect, Way
from edge_runtime.errors import ProtocolError
from edge_runtime.events import Event, Task
from edge_runtime.transcript import Transcript

Fields = Mapping[str, Sequence[str]]
"""Those of a form that are not its file, each with its values in order."""


@dataclass(frozen=True)
class Body:
    """What is answered, and its MIME type."""

    type: str
    data: bytes


class Recorded:
    """One request's translator, without I/O.

    `words`: word times are wanted. `streams`: the answer is what `piece` makes of each event,
    as soon as it is there; else it is `whole`. A client's `field` holds the file where the request
    is a form; else all of its body is the file.
    """

    name: ClassVar[str]
    """The label of its figures."""

    ways: ClassVar[tuple[Way, ...]] = Dialect.ways
    """Where its clients put an API key."""

    field: ClassVar[str | None] = None
    endpoint_ms: int = 500
    words: bool = False
    task: ClassVar[Task] = "transcribe"
    language: str | None = None
    streams: bool = False
    file: bytes = b""
    """What was posted, as it is: given before anything is answered."""

    def __init__(self, asked: Asked, fields: Fields) -> None:
        """Raises `ProtocolError` for what is asked and there is not."""
        self.asked = asked

    def piece(self, event: Event) -> bytes:
        """What a stream of server-sent events gets of an event; often nothing."""
        raise NotImplementedError

    def whole(self, transcript: Transcript) -> Body:
        """The answer."""
        raise NotImplementedError

    @staticmethod
    def complaint(error: ProtocolError) -> dict[str, Any]:
        """The JSON that says what is wrong."""
        return Dialect.complaint(error)
