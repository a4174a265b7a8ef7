"""Deepgram's interface for recordings: `POST /v1/listen`, whose body is the file."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from edge_runtime.dialects.base import Asked
from edge_runtime.dialects.deepgram import query
from edge_runtime.dialects.deepgram.alternative import spoken
from edge_runtime.dialects.deepgram.listen import WAYS
from edge_runtime.dialects.deepgram.origin import Origin
from edge_runtime.dialects.deepgram.wrong import Wrong, complaint
from edge_runtime.dialects.recorded import Body, Fields, Recorded
from edge_runtime.errors import ProtocolError
from edge_runtime.events import Final
from edge_runtime.transcript import Transcript


class Prerecorded(Recorded):
    """One request; an utterance is a turn."""

    name = "deepgram-prerecorded"
    ways = WAYS
    words = True

    def __init__(self, asked: Asked, fields: Fields) -> None:
        """Raises `Wrong`."""
        asked = asked.of(asked.query.get("model"))
        super().__init__(asked, fields)
        kind = asked.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind == "application/json":
            raise Wrong(
                "nothing is fetched from other addresses", "Post the recording itself as the body."
            )
        query.check(asked.query, asked.languages)
        self.language = asked.spoken(asked.query.get("language"))
        if query.flag(asked.query, "multichannel"):
            raise Wrong(
                "channels are not transcribed apart", "Leave multichannel out: they are mixed."
            )
        self._utterances = query.flag(asked.query, "utterances")
        self._origin = Origin(asked.model)

    def whole(self, transcript: Transcript) -> Body:
        """The answer."""
        origin = self._origin
        metadata = origin.metadata(hashlib.sha256(self.file).hexdigest(), transcript.seconds)
        metadata |= {
            "models": [origin.model_uuid],
            "model_info": {origin.model_uuid: origin.model_info},
        }
        results: dict[str, Any] = {"channels": [{"alternatives": [spoken(transcript.spoken)]}]}
        if self._utterances:
            results["utterances"] = [_utterance(turn) for turn in _turns(transcript)]
        said = {"metadata": metadata, "results": results}
        return Body("application/json", msgspec.json.encode(said))

    @staticmethod
    def complaint(error: ProtocolError) -> dict[str, Any]:
        """Deepgram's form of an error."""
        return complaint(error)


def _turns(transcript: Transcript) -> list[list[Final]]:
    turns: dict[int, list[Final]] = {}
    for final in transcript.spoken:
        turns.setdefault(final.turn, []).append(final)
    return list(turns.values())


def _utterance(turn: Sequence[Final]) -> dict[str, Any]:
    return {
        "id": str(uuid.uuid4()),
        "start": turn[0].start,
        "end": turn[-1].end,
        "channel": 0,
        **spoken(turn),
    }
