"""`POST /v1/audio/translations`: the same form, and its text in English."""

from __future__ import annotations

from edge_runtime.dialects.base import Asked
from edge_runtime.dialects.openai.transcriptions import Transcriptions
from edge_runtime.dialects.openai.wrong import Wrong
from edge_runtime.transcript import Transcript


class Translations(Transcriptions):
    """A recording in any language of a model that translates.

    Apps name a model of whom they were written for: the first that translates answers them.
    """

    task = "translate"

    @staticmethod
    def _of(asked: Asked, model: str | None) -> Asked:
        """Raises `Wrong` where there is none that translates, or the named one does not."""
        named = asked.of(model)
        found = named.translating()
        if found is None:
            raise Wrong(
                "model",
                f"{named.model} does not translate",
                f"Choose one of {', '.join(asked.translators)}."
                if asked.translators
                else "Serve a model that does, such as whisper-base; "
                "/v1/audio/transcriptions has the text as it was spoken.",
            )
        return found

    def _written(self, transcript: Transcript) -> str:
        return "en"
