"""Which products of a model go together: they are rounded, or kept wide, as one."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LAYER = re.compile(r"model\.(encoder|decoder)\.layers\.(\d+)\.(\w+)\.")
_PARTS = {
    "self_attn": "attention", "encoder_attn": "cross-attention", "mlp": "MLP", "fc1": "MLP",
    "fc2": "MLP",
}  # fmt: skip
_NAMES = {"table": "embedding table", "cross_proj.weight": "cross projection"}


def groups(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The products of each group, in the order in which they come.

    A layer's attention and its MLP are one group each; every other product is one by itself.
    """
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(group(name), []).append(name)
    return {each: tuple(members) for each, members in found.items()}


def group(name: str) -> str:
    """The group of a product, as people call it."""
    if name in _NAMES:
        return _NAMES[name]
    layer = _LAYER.match(name)
    if layer:
        side, number, part = layer.groups()
        return f"{side} layer {number} {_PARTS.get(part, part)}"
    return name.removeprefix("model.").removesuffix(".weight").replace(".", " ")
