"""A model's tokens as text, from the forms in which tokenizers are published."""

from __future__ import annotations

from pathlib import Path

import msgspec

from edge_runtime.errors import ModelDamaged, ModelMissing


def read_vocabulary(weights: Path) -> list[str]:
    """The text of every token, by its number; U+2581 is a space, `<0xNN>` a byte.

    Reads `tokenizer.bin`, `tokenizer.json` or `tokens.txt`, whichever the folder has.
    """
    binary, described = weights / "tokenizer.bin", weights / "tokenizer.json"
    if binary.is_file():
        return _binary(binary)
    if described.is_file():
        return _described(described)
    if (listed := weights / "tokens.txt").is_file():
        return _listed(listed)
    raise ModelMissing(f"no tokenizer in {weights}", "Run: edge-runtime pull MODEL --again")


def _binary(path: Path) -> list[str]:
    """Length-prefixed tokens: one byte, or two where the first is 128 or more."""
    data, tokens, at = path.read_bytes(), [], 0
    while at < len(data):
        length = data[at]
        at += 1
        if length >= 128 and at < len(data):
            length = data[at] * 128 + length - 128
            at += 1
        if at + length > len(data):
            raise ModelDamaged(f"{path} is cut off", "Run: edge-runtime pull MODEL --again")
        tokens.append(_text(data[at : at + length]))
        at += length
    return tokens


def _text(token: bytes) -> str:
    """Tokens of one byte that is no character by itself are spelt `<0xNN>`."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in token)


class _Model(msgspec.Struct):
    vocab: dict[str, int]


class _Tokenizer(msgspec.Struct):
    model: _Model


def _described(path: Path) -> list[str]:
    try:
        vocab = msgspec.json.decode(path.read_bytes(), type=_Tokenizer).model.vocab
    except msgspec.MsgspecError as error:
        raise ModelDamaged(f"{path}: {error}", "Run: edge-runtime pull MODEL --again") from None
    tokens = [""] * (max(vocab.values(), default=-1) + 1)
    for text, number in vocab.items():
        tokens[number] = text
    return tokens


def _listed(path: Path) -> list[str]:
    """A line for each token: its text, a space, its number."""
    numbered: dict[int, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        text, _, number = line.rpartition(" ")
        if not number.strip().isdecimal():
            raise ModelDamaged(
                f"{path}: {line!r} has no number", "Run: edge-runtime pull MODEL --again"
            )
        numbered[int(number)] = text
    tokens = [""] * (max(numbered, default=-1) + 1)
    for place, text in numbered.items():
        tokens[place] = text
    return tokens
