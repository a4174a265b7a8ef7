"""The key that our own clients show to a server."""

from __future__ import annotations

import os
from collections.abc import Mapping

MISSING = "Give a key: EDGE_RUNTIME_KEY=er_… (on the server: edge-runtime keys add NAME)."
"""The fix where a server answers 401."""


def shown(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The headers of a request that show `EDGE_RUNTIME_KEY`; none without it."""
    key = environ.get("EDGE_RUNTIME_KEY")
    return {"Authorization": f"Bearer {key}"} if key else {}
