"""In what something of the store is not what is wanted, short enough for a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """A field in which something is not what is wanted."""

    field: str
    wanted: str
    found: str

    def __str__(self) -> str:
        if self.field == "graphs":
            return "graphs (exported by another version of edge-runtime)"
        return f"{self.field} (wanted {self.wanted}, found {self.found})"


def differing(pairs: Mapping[str, tuple[object, object]]) -> list[Difference]:
    """Of pairs (wanted, found) by field those that differ, in their order.

    Graphs are made of the others: where `precision`, `recipe`, `weights` or `scheme` differ,
    they say nothing more.
    """
    unlike = [
        Difference(field, *_told(field, one, other))
        for field, (one, other) in pairs.items()
        if one != other
    ]
    if any(each.field in ("precision", "recipe", "weights", "scheme") for each in unlike):
        unlike = [each for each in unlike if each.field != "graphs"]
    return unlike


def _told(field: str, one: object, other: object) -> tuple[str, str]:
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted(one.keys() | other.keys())
        name = next(name for name in names if one.get(name) != other.get(name))
        return f"{name} {one.get(name, 'absent')[:12]}", f"{name} {other.get(name, 'absent')[:12]}"
    if field == "split":
        return _joined(one), _joined(other)
    return str(one)[:16] or "none", str(other)[:16] or "none"


def _joined(tiles: object) -> str:
    return ",".join(map(str, tiles)) if isinstance(tiles, tuple) else str(tiles)
