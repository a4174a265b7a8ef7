"""`/v1/models`: which models there are."""

from __future__ import annotations

from edge_runtime.dialects.base import Asked
from edge_runtime.dialects.openai.wrong import Wrong, complaint

_MADE = 1_700_000_000
"""Clients want to know when a model was made: the same time, always."""


def models(asked: Asked, _name: str = "") -> tuple[int, object]:
    """The list of all models, the default first."""
    return 200, {"object": "list", "data": [_described(name) for name in asked.models]}


def model(asked: Asked, name: str) -> tuple[int, object]:
    """One model by its name."""
    if name in asked.models:
        return 200, _described(name)
    wrong = Wrong(
        "model",
        f"the model {name[:80]!r} is not served here",
        "GET /v1/models lists what is; to transcriptions, any other name means the first of them.",
        "model_not_found",
    )
    return 404, {"error": complaint(wrong)}


def _described(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": _MADE, "owned_by": "edge-runtime"}
