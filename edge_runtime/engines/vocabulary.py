"""A model's tokens as text, from the forms in which tokenizers are published."""

from __future__ import annotations

from pathlib import Path

import msgspec

from edge_runtime.decode.tokens import SPACE
from edge_runtime.errors import ModelDamaged, ModelMissing


def read_vocabulary(weights: Path) -> list[str]:
    """The text of every token, by its number; U+2581 is a space, each `<0xNN>` a byte.

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
    """Tokens of bytes that are no characters by themselves are spelt `<0xNN>`."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        return _spelt(token)


def _spelt(token: bytes) -> str:
    return "".join(f"<0x{byte:02X}>" for byte in token)


class _Model(msgspec.Struct):
    vocab: dict[str, int]


class _Added(msgspec.Struct):
    id: int
    content: str
    special: bool = False


class _Decoder(msgspec.Struct):
    type: str = ""


class _Tokenizer(msgspec.Struct):
    model: _Model
    added_tokens: tuple[_Added, ...] = ()
    decoder: _Decoder | None = None


def _described(path: Path) -> list[str]:
    try:
        told = msgspec.json.decode(path.read_bytes(), type=_Tokenizer)
    except msgspec.MsgspecError as error:
        raise ModelDamaged(f"{path}: {error}", "Run: edge-runtime pull MODEL --again") from None
    vocab = dict(told.model.vocab)
    if told.decoder is not None and told.decoder.type == "ByteLevel":
        vocab = {_from_bytes(text, path): number for text, number in vocab.items()}
    # A mark is spelt as it is, whatever the vocabulary makes of it.
    marks = {each.id: each.content for each in told.added_tokens}
    numbers = {number: text for text, number in vocab.items()} | marks
    return [numbers.get(number, "") for number in range(max(numbers, default=-1) + 1)]


def _from_bytes(text: str, path: Path) -> str:
    """A token in which each character stands for a byte, as we spell it.

    What would be taken for a mark or for a space is spelt in bytes.
    """
    try:
        token = bytes(_BYTES[character] for character in text)
        taken = b"<" in token or SPACE.encode() in token
        return _spelt(token) if taken else _text(token).replace(" ", SPACE)
    except KeyError:
        raise ModelDamaged(
            f"{path}: the token {text!r} is not spelt in bytes",
            "Run: edge-runtime pull MODEL --again",
        ) from None


def _characters() -> dict[str, int]:
    """The byte of each character: printable ones are themselves, the rest follow 255 in order."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = [byte for byte in range(256) if byte not in printable]
    shown = {chr(byte): byte for byte in printable}
    return shown | {chr(256 + place): byte for place, byte in enumerate(hidden)}


_BYTES = _characters()


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
