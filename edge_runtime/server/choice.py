"""Which of the models that are served a session gets."""

from __future__ import annotations

from edge_runtime.dialects import Asked
from edge_runtime.errors import ProtocolError
from edge_runtime.server.base import Runtime


def chosen(runtime: Runtime, model: str | None) -> Runtime:
    """The one of that name, the default where none is named; raises `ProtocolError`."""
    models = runtime.models
    found = models.get(runtime.model if model is None else model)
    if found is None:
        raise ProtocolError(
            "unknown_model",
            f"the model {str(model)[:80]!r} is not served here",
            f"Leave it out, or choose one of {', '.join(models)}. "
            "On the server: edge-runtime models load NAME.",
        )
    return found


def described(runtime: Runtime | None) -> Asked:
    """What a dialect may know of the models; a request adds to it."""
    if runtime is None:
        return Asked()
    models = runtime.models
    return Asked(
        model=runtime.model,
        languages=runtime.languages,
        models={name: each.languages for name, each in models.items()},
        translators=[name for name, each in models.items() if "translate" in each.tasks],
    )
