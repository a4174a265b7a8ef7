"""Ranges of the products that cost most, moved to where the model's answers change least.

What a product's own output loses does not tell what becomes of it. A norm behind it may make
quiet frames as large as loud ones: a range that does loud ones justice leaves nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from edge_runtime.engines.calibrate.scheme import LARGEST, Product, Scheme, step
from edge_runtime.engines.calibrate.search import NATS, Ranked
from edge_runtime.engines.calibrate.trial import Change

DEAR = NATS / 200
"""The divergence, in nats a token, from which on a group's ranges are moved."""

TURNS = 16
"""Turns that they are judged by."""

PACE = 2.0**0.25
"""What a range is made narrower or wider by at a time."""

PACES = 6
"""How often at most: to a third, or to three times as much."""


class Measuring(Protocol):
    """What is asked of a `Trial`."""

    def change(self, scheme: Scheme, most: int | None = None) -> Change: ...


class Moved(msgspec.Struct, frozen=True):
    """A product with its range by the answers, and how far these diverge with that alone.

    `before` is the divergence with the range that it had, `was`, the step of it.
    """

    name: str
    product: Product
    was: float
    before: float
    after: float


Kept = Callable[[str, Callable[[], Moved]], Moved]
"""Gives what was found for a product by name, found now where it is not there yet."""


def moved(
    trial: Measuring,
    products: Mapping[str, Product],
    ranked: Sequence[Ranked],
    kept: Kept,
    telling: Callable[[int], Callable[[int], None]] = lambda total: lambda done: None,
) -> list[Moved]:
    """Those products of `ranked` groups that cost enough and are better with another range.

    Each is measured alone, and its range moved step by step as long as it gets better:
    narrower, and where that is not better, wider. `telling` is given how many are tried.
    """
    names = [name for each in ranked if each.divergence >= DEAR for name in each.products]
    told, found = telling(len(names)), []
    for number, name in enumerate(names):
        found.append(kept(name, lambda name=name: _best(trial, name, products[name])))  # type: ignore[misc]
        told(number + 1)
    return [each for each in found if each.product != products[each.name]]


def _best(trial: Measuring, name: str, product: Product) -> Moved:
    def cost(scale: float) -> float:
        tried = msgspec.structs.replace(product, scale=scale)
        return trial.change(Scheme(products={name: tried}), TURNS).divergence

    assert product.scale is not None
    first = product.scale
    before = cost(first)
    scale, least = _downhill(cost, first, before, 1 / PACE)
    if scale == first:
        scale, least = _downhill(cost, first, before, PACE)
    return Moved(name, msgspec.structs.replace(product, scale=scale), first, before, least)


def _downhill(
    cost: Callable[[float], float], scale: float, least: float, pace: float
) -> tuple[float, float]:
    """The last scale before it gets worse, and its cost."""
    for _ in range(PACES):
        near = step(LARGEST * scale * pace)
        lost = cost(near)
        if lost >= least:
            break
        scale, least = near, lost
    return scale, least
