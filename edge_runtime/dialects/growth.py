"""Text that only grows, for clients that join what they are sent and cannot take it back."""

from __future__ import annotations


class Growth:
    """The text of a turn, segment after segment, as the pieces that were added to it.

    A segment's stable text may be told as it grows, then its final, which begins with it. The
    pieces joined are always `text`; where every final is told, that is the finals' texts without
    the space around them, joined by single spaces.
    """

    def __init__(self) -> None:
        self.text = ""
        self._segment = ""  # what of the open segment is in `text`

    def stable(self, text: str) -> str:
        """The piece that a segment's stable text adds; "" for none."""
        # A space at its end may be the text's last: it is told with what follows it.
        return self._add(text.strip())

    def final(self, text: str) -> str:
        """The piece that a segment's final adds; the next text belongs to another segment."""
        piece = self._add(text.strip())
        self._segment = ""
        return piece

    def _add(self, text: str) -> str:
        if not text.startswith(self._segment):
            return ""  # a device that failed gives an empty final: nothing is taken back
        piece = text[len(self._segment) :]
        if piece and self.text and not self._segment:
            piece = f" {piece}"
        self._segment = text
        self.text += piece
        return piece
