"""From token numbers to text and words."""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from edge_runtime.decode.scripts import unspaced
from edge_runtime.errors import ModelDamaged, ModelMissing

SPACE = "\u2581"
_BYTES = re.compile(r"(?:<0x[0-9A-F]{2}>)+")
_MARK = re.compile(r"^<[^>]+>>?$")
_REMEMBERED = 1 << 14
_LEADING = frozenset(bytes([lead]) for lead in range(0xE3, 0xEA))
_CLOSING = ".,;:!?\u2026\u3002\uff0c\uff1f\uff01"


@dataclass(frozen=True)
class Span:
    """A word of a hypothesis: its text, and which tokens it is made of.

    Tokens [first, last) spell it, [first, bare_last) without closing punctuation.
    `logprob` is the mean over the tokens; `weakest` the least log-probability and
    `margin` the least lead over the second best logit, closing punctuation aside;
    `frame` is the last encoder frame that a token of the word looked at; `spaced` tells whether
    a space parts it from the word before.
    """

    text: str
    first: int
    last: int
    bare_last: int
    logprob: float
    weakest: float
    margin: float
    frame: int
    spaced: bool = True

    @property
    def bare(self) -> str:
        """The text without closing punctuation."""
        return self.text.rstrip(_CLOSING) or self.text

    @property
    def key(self) -> str:
        """What two spellings of the same word have in common: letters and digits, folded."""
        return key(self.text)


@lru_cache(1 << 14)
def letters(text: str) -> str:
    """Letters and digits of `text`, case folded."""
    return "".join(c for c in text.casefold() if c.isalnum())


def key(text: str) -> str:
    """Letters and digits of `text`, case folded; `text` itself where it has none."""
    return letters(text) or text


class Vocabulary:
    """The text of every token of a model."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._bytes = [_spelt(token) for token in tokens]
        self._begins = [_begins(spelt) for spelt in self._bytes]
        # A word that was said once is seen again at each hop of its segment.
        self._spelling = lru_cache(_REMEMBERED)(self._spelled)

    @classmethod
    def load(cls, graphs: Path) -> Vocabulary:
        """The vocabulary in a folder of graphs; raises `ModelMissing` or `ModelDamaged`."""
        path = graphs / "vocabulary.json"
        try:
            return cls(msgspec.json.decode(path.read_bytes(), type=list[str]))
        except FileNotFoundError:
            raise ModelMissing(f"{path} does not exist", "Run: edge-runtime pull MODEL") from None
        except msgspec.MsgspecError as error:
            raise ModelDamaged(f"{path}: {error}", "Run: edge-runtime pull MODEL --again") from None

    def text(self, tokens: Sequence[int]) -> str:
        """The text of `tokens`, without space around it."""
        return _decoded(b"".join(self._bytes[token] for token in tokens)).strip()

    def words(
        self,
        tokens: Sequence[int],
        logprobs: Sequence[float],
        margins: Sequence[float],
        frames: Sequence[int],
    ) -> list[Span]:
        """The words of `tokens`.

        A word begins at a token that begins with a space, and in scripts that put none at each
        token that begins with a letter.
        """
        starts = [index for index, token in enumerate(tokens) if index == 0 or self._begins[token]]
        words = []
        for first, last in itertools.pairwise([*starts, len(tokens)]):
            text, count = self._spelling(tuple(tokens[first:last]))
            if text:
                bare = first + count
                sure = logprobs[first:last]
                words.append(
                    Span(
                        text,
                        first,
                        last,
                        bare,
                        sum(sure) / len(sure),
                        min(logprobs[first:bare]),
                        min(margins[first:bare]),
                        max(frames[first:last]),
                        spaced=self._bytes[tokens[first]].startswith(b" "),
                    )
                )
        return words

    def tail(self, tokens: Sequence[int], count: int) -> str:
        """The text that the tokens after the first `count` add, with the space before it."""
        return _decoded(b"".join(self._bytes[token] for token in tokens[count:])).rstrip()

    def _spelled(self, tokens: tuple[int, ...]) -> tuple[str, int]:
        """The text of a word, and how many of its tokens are not closing punctuation."""
        count = len(tokens)
        while count > 1 and not self.text(tokens[count - 1 : count]).strip(_CLOSING):
            count -= 1
        return self.text(tokens), count


def _begins(token: bytes) -> bool:
    """Whether a word begins with it."""
    if token.startswith(b" "):
        return True
    text = _decoded(token)
    # Three bytes that begin so are such a letter, or a sign of such a script.
    return unspaced(text[0]) if text else token[:1] in _LEADING


def _decoded(text: bytes) -> str:
    """`text` without a character at its end that is not all there yet."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(text)


def _spelt(token: str) -> bytes:
    if _BYTES.fullmatch(token):
        return bytes.fromhex(token.replace("<0x", "").replace(">", ""))
    return b"" if _MARK.match(token) else token.replace(SPACE, " ").encode()
