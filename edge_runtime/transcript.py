"""What came of one recording."""

from __future__ import annotations

from dataclasses import dataclass

from edge_runtime.events import Final


@dataclass(frozen=True)
class Transcript:
    """A recording's name, its length in seconds, and its finals in order."""

    name: str
    seconds: float
    finals: tuple[Final, ...]

    @property
    def spoken(self) -> tuple[Final, ...]:
        """The finals that have text: what the guards rejected has none."""
        return tuple(final for final in self.finals if final.text)

    @property
    def turns(self) -> tuple[str, ...]:
        """The text of each turn, its segments joined."""
        texts: dict[int, list[str]] = {}
        for final in self.spoken:
            texts.setdefault(final.turn, []).append(final.text.strip())
        return tuple(" ".join(parts) for parts in texts.values())

    @property
    def text(self) -> str:
        """All of it on one line."""
        return " ".join(self.turns)
