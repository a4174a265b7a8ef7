"""Where results come from: a request and the model that answers it."""

from __future__ import annotations

import uuid
from datetime import datetime, timezone
from typing import Any

from edge_runtime import __version__


class Origin:
    """One request: its number, when it came, the model's name."""

    def __init__(self, model: str) -> None:
        self.request_id = str(uuid.uuid4())
        self.model_uuid = str(uuid.uuid5(uuid.NAMESPACE_URL, f"edge-runtime:{model}"))
        self.model_info = {"name": model, "version": __version__, "arch": "edge-runtime"}
        now = datetime.now(timezone.utc)
        self._created = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    @property
    def described(self) -> dict[str, Any]:
        """As each of the live results tells it."""
        return {
            "request_id": self.request_id,
            "model_info": self.model_info,
            "model_uuid": self.model_uuid,
        }

    def metadata(self, sha256: str, seconds: float) -> dict[str, Any]:
        """About all of the audio, by the hash of its bytes and its length."""
        return {
            "transaction_key": "deprecated",
            "request_id": self.request_id,
            "sha256": sha256,
            "created": self._created,
            "duration": seconds,
            "channels": 1,
        }
