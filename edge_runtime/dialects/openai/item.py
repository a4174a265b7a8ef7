"""An item of the Realtime interface: a turn, and the events that tell of it."""

from __future__ import annotations

from typing import Any

from edge_runtime.dialects.growth import Growth

Event = dict[str, Any]

_TRANSCRIPTION = "conversation.item.input_audio_transcription"


class Item:
    """One turn, which may span several segments. Its deltas joined are its transcript.

    `told`: the client knows of it. `seconds` of it were written down.
    """

    def __init__(self, name: str) -> None:
        self.id = name
        self.told = False
        self.seconds = 0.0
        self._growth = Growth()

    def started(self, at: float) -> Event:
        """Speech was heard from `at` seconds on."""
        self.told = True
        return self._event("input_audio_buffer.speech_started", audio_start_ms=round(at * 1000))

    def stable(self, text: str) -> list[Event]:
        """The open segment's stable text has grown, perhaps."""
        return self._delta(self._growth.stable(text))

    def final(self, text: str, seconds: float) -> list[Event]:
        """The text of a segment of so many seconds."""
        self.seconds += seconds
        return self._delta(self._growth.final(text))

    def stopped(self, at: float) -> Event:
        """Speech ended at `at` seconds."""
        return self._event("input_audio_buffer.speech_stopped", audio_end_ms=round(at * 1000))

    def committed(self, before: str | None, *, beta: bool) -> list[Event]:
        """It is over, and told to its end; `before` is the id of the item before it."""
        whole = {
            "id": self.id,
            "object": "realtime.item",
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_audio", "transcript": None}],
        }
        kinds = ("created",) if beta else ("added", "done")
        return [
            self._event("input_audio_buffer.committed", previous_item_id=before),
            *(
                {"type": f"conversation.item.{kind}", "previous_item_id": before, "item": whole}
                for kind in kinds
            ),
            self._event(
                f"{_TRANSCRIPTION}.completed",
                content_index=0,
                transcript=self._growth.text,
                usage={"type": "duration", "seconds": round(self.seconds, 3)},
            ),
        ]

    def failed(self, error: dict[str, Any]) -> list[Event]:
        """It comes to nothing: said where the client knows of it."""
        if not self.told:
            return []
        return [self._event(f"{_TRANSCRIPTION}.failed", content_index=0, error=error)]

    def _delta(self, text: str) -> list[Event]:
        if not text:
            return []
        self.told = True
        return [self._event(f"{_TRANSCRIPTION}.delta", content_index=0, delta=text)]

    def _event(self, kind: str, **fields: Any) -> Event:
        return {"type": kind, "item_id": self.id, **fields}
