"""A small vocabulary, and hypotheses spelt out as text."""

import re
from collections.abc import Callable

import pytest

from edge_runtime.decode.tokens import Span, Vocabulary

WORDS = [
    "a",
    "and",
    "be",
    "four",
    "hello",
    "i",
    "know",
    "no",
    "not",
    "one",
    "or",
    "so",
    "the",
    "there",
    "three",
    "two",
    "what",
    "world",
    "yes",
    "you",
]
MARKS = [".", ",", "?", "!"]

Said = tuple[list[Span], list[int]]
Say = Callable[..., Said]


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    spelt = [f"\u2581{word}" for word in WORDS] + [f"\u2581{word.capitalize()}" for word in WORDS]
    return Vocabulary(["<unk>", "<s>", "</s>", *MARKS, *spelt])


@pytest.fixture(scope="session")
def say(vocabulary: Vocabulary) -> Say:
    """The words and tokens of a text; `sure` and `frames` by word, -0.05 and 0 by default."""
    known = {
        vocabulary.text([number]): number for number in range(3, 3 + len(MARKS) + 2 * len(WORDS))
    }

    def said(
        text: str, sure: dict[str, float] | None = None, frames: dict[str, int] | None = None
    ) -> Said:
        tokens: list[int] = []
        logprobs: list[float] = []
        seen: list[int] = []
        for piece in re.findall(r"[A-Za-z]+|[.,?!]", text):
            tokens.append(known[piece])
            logprobs.append((sure or {}).get(piece, -0.05))
            seen.append((frames or {}).get(piece, 0))
        return vocabulary.words(tokens, logprobs, [9.0] * len(tokens), seen), tokens

    return said
