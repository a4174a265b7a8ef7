"""Which products are rounded to 8 bits and which stay wide: found by measuring, not from a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.calibrate.groups import groups
from edge_runtime.engines.calibrate.scheme import TABLE, Precision, Product, Scheme
from edge_runtime.engines.calibrate.trial import Change

Target = Literal["size", "speed"]

FEW = 10
"""Turns that groups are ranked by: of about four clips."""

NATS = 0.005
"""How much less likely the unquantised text may become, in nats a token: a few clips have too
few words for their word error rate alone to tell."""

SPARED = 0.1
"""The share of a group's error that float16 weights may keep; else they are float32."""

RUNGS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24)
"""How many groups are kept wide in the schemes that are tried, cheapest first."""


class Measuring(Protocol):
    """What is asked of a `Trial`."""

    def change(self, scheme: Scheme, most: int | None = None) -> Change: ...

    def seconds(self, scheme: Scheme) -> float: ...


class Ranked(msgspec.Struct, frozen=True):
    """A group in 8 bits while all others stay as they are.

    `bytes` are those it saves, `seconds` those of an update, where that was measured; `error`
    and `nats` as in `Change`. `wide` is what its products would be kept in.
    """

    name: str
    products: tuple[str, ...]
    error: float
    nats: float
    bytes: int
    seconds: float | None = None
    wide: Precision = "fp16"


class Tried(msgspec.Struct, frozen=True):
    """A scheme that keeps the groups `wide`, and how it did: word errors over a few clips.

    `increase` is in points of word error rate; `passed` tells whether it does.
    """

    wide: tuple[str, ...]
    bytes: int
    error: float
    nats: float
    increase: float
    passed: bool


Kept = Callable[[str, Callable[[], Ranked]], Ranked]
"""Gives a group's measurement by name, made now where it is not there yet."""


class Search:
    """Ranks groups by the error that each causes alone, and gives up the costliest first."""

    def __init__(
        self,
        trial: Measuring,
        products: Mapping[str, Product],
        weights: Mapping[str, NDArray[np.float32]],
        target: Target = "size",
    ) -> None:
        """`products` are all there are, in 8 bits with their ranges; `weights` theirs."""
        self._trial = trial
        self._products = products
        self._weights = weights
        self._target = target
        self._plain: float | None = None
        self._halves: float | None = None
        self.groups = groups(products)

    def rank(self, kept: Kept, told: Callable[[int], None] = lambda done: None) -> list[Ranked]:
        """All groups, those first whose error is largest for what they save."""
        found = []
        for number, name in enumerate(self.groups):
            found.append(kept(name, lambda name=name: self._ranked(name)))  # type: ignore[misc]
            told(number + 1)
        return sorted(found, key=lambda each: (-self._worth(each), each.name))

    def rungs(self, ranked: Sequence[Ranked]) -> list[tuple[Ranked, ...]]:
        """Which groups the schemes keep wide that are to be tried, the cheapest first.

        Of speed alone, a group is kept wide from the beginning where 8 bits gain no time.
        """
        free = [each for each in ranked if each.seconds is not None and each.seconds <= 0]
        rest = [each for each in ranked if each not in free]
        counts = [count for count in RUNGS if count < len(rest)]
        return [tuple(free + rest[:count]) for count in (*counts, len(rest))]

    def scheme(self, wide: Sequence[Ranked]) -> Scheme:
        """All products in 8 bits but those of some groups."""
        kept = {name: each.wide for each in wide for name in each.products}
        return Scheme(
            products={
                name: Product(precision=kept[name]) if name in kept else product
                for name, product in self._products.items()
            }
        )

    def bytes(self, scheme: Scheme) -> int:
        """Of all weights in a scheme, their scales included."""
        return sum(self._size(name, each.precision) for name, each in scheme.products.items())

    def descend(
        self,
        rungs: Sequence[tuple[Ranked, ...]],
        judge: Callable[[int, Scheme], tuple[float, bool]],
        kept: Callable[[int, Callable[[], Tried]], Tried],
    ) -> list[Tried]:
        """What was tried, in order, up to the first that does: the last one is chosen.

        `judge(rung, scheme)` gives the points of word error rate that a scheme costs, and
        whether that is allowed.
        """
        found = []
        for number, wide in enumerate(rungs):

            def tried(number: int = number, wide: tuple[Ranked, ...] = wide) -> Tried:
                scheme = self.scheme(wide)
                change = self._trial.change(scheme)
                increase, allowed = judge(number, scheme)
                return Tried(
                    tuple(each.name for each in wide), self.bytes(scheme), change.error,
                    change.nats, increase, allowed and change.nats <= NATS,
                )  # fmt: skip

            found.append(kept(number, tried))
            if found[-1].passed:
                break
        return found

    def _ranked(self, name: str) -> Ranked:
        members = self.groups[name]
        alone = Scheme(products={each: self._products[each] for each in members})
        change = self._trial.change(alone, FEW)
        seconds = None
        if self._target == "speed":
            if self._plain is None:
                self._plain = self._trial.seconds(Scheme(products={}))
            seconds = self._plain - self._trial.seconds(alone)
        half = self._wide(members, change.error)
        saved = sum(self._size(each, half) - self._size(each, "int8") for each in members)
        return Ranked(name, members, change.error, change.nats, saved, seconds, half)

    def _wide(self, members: tuple[str, ...], error: float) -> Precision:
        """What a group is kept in: float16 weights where they spare nearly all of its error."""
        if TABLE in members:
            return "fp32"  # its rows are looked up as they lie in the file
        if self._halves is None:
            self._halves = self._in_half(name for name in self._products if name != TABLE)
        if self._halves <= SPARED * error or self._in_half(members) <= SPARED * error:
            return "fp16"
        return "fp32"

    def _in_half(self, names: Iterable[str]) -> float:
        scheme = Scheme(products={name: Product(precision="fp16") for name in names})
        return self._trial.change(scheme, FEW).error

    def _worth(self, ranked: Ranked) -> float:
        """The square of a group's error, for independent errors add up so, for what it saves."""
        saved = ranked.bytes if ranked.seconds is None else max(ranked.seconds, 1e-9)
        return ranked.error**2 / saved

    def _size(self, name: str, precision: Precision) -> int:
        weight = self._weights[name]
        if precision == "int8":
            out = weight.shape[1] if weight.ndim == 2 and name != TABLE else weight.shape[0]
            return int(weight.size + 4 * out)
        return int(weight.size * (2 if precision == "fp16" else 4))
