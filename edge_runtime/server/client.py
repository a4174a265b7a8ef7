"""What a connection's sessions have to do with who opened it."""

from __future__ import annotations

from dataclasses import dataclass, field

from edge_runtime.server.budget import Budget


@dataclass(frozen=True)
class Client:
    """`owner` is the hash of the key that it showed, empty where there is none; `budget` is shared
    by all that has the same key, else the same address."""

    owner: str = ""
    budget: Budget = field(default_factory=lambda: Budget(0.0))
