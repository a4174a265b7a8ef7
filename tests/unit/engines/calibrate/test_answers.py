"""Ranges go where answers diverge least: narrower first, only what costs, each time the same."""

from __future__ import annotations

import math

import pytest

from edge_runtime.engines.calibrate.answers import DEAR, PACE, PACES, moved
from edge_runtime.engines.calibrate.scheme import LARGEST, Product, Scheme, step
from edge_runtime.engines.calibrate.search import Ranked
from edge_runtime.engines.calibrate.trial import Change, Spoken, Trial

HERE = 0.25


class Valley:
    """Answers that diverge least where a product's step is `best`."""

    def __init__(self, best: float) -> None:
        self.best = best
        self.tried: list[float] = []

    def change(self, scheme: Scheme, most: int | None = None) -> Change:
        (product,) = scheme.products.values()
        assert product.scale is not None
        self.tried.append(product.scale)
        return Change(0.0, 0.0, abs(math.log2(product.scale / self.best)))


def ranked(name: str, *products: str, divergence: float = 1.0) -> Ranked:
    return Ranked(name, products, 0.0, 0.0, divergence, 0)


def found(best: float) -> tuple[float, list[float]]:
    valley, smooth = Valley(best), (2.0, 0.5)
    products = {"a": Product(scale=HERE, smooth=smooth)}
    better = moved(valley, products, [ranked("A", "a")], lambda name, make: make())
    assert [each.name for each in better] in ([], ["a"])
    for each in better:
        assert each.product.smooth == smooth
        assert each.was == HERE
        assert each.after < each.before == valley.change(Scheme(products=products)).divergence
        return each.product.scale or 0.0, valley.tried[:-1]
    return HERE, valley.tried


@pytest.mark.parametrize("paces", [-3, -1, 1, 2])
def test_a_range_moves_to_the_bottom(paces) -> None:
    best = HERE * PACE**paces
    scale, tried = found(best)
    assert scale == pytest.approx(best, rel=2e-3)
    assert scale == step(LARGEST * scale)  # one that float16 holds
    # from where it is down to the one behind the best, or one down in vain and then up
    assert len(tried) == (2 - paces if paces < 0 else 3 + paces)


def test_a_range_that_is_right_stays() -> None:
    assert found(HERE) == (HERE, [HERE, step(LARGEST * HERE / PACE), step(LARGEST * HERE * PACE)])


def test_a_range_does_not_move_without_end() -> None:
    scale, _ = found(HERE / 1000)
    assert scale == pytest.approx(HERE * PACE**-PACES, rel=1e-2)


def test_only_what_costs_is_moved() -> None:
    valley = Valley(HERE / PACE)
    products = {name: Product(scale=HERE) for name in "abc"}
    groups = [ranked("AB", "a", "b", divergence=DEAR), ranked("C", "c", divergence=0.9 * DEAR)]
    told: list[int] = []
    better = moved(valley, products, groups, lambda name, make: make(),
                   lambda total: lambda done: told.append(done * 100 // total))  # fmt: skip
    assert [each.name for each in better] == ["a", "b"]
    assert told == [50, 100]


def test_what_was_found_is_not_looked_for_again() -> None:
    valley, products = Valley(HERE / PACE), {"a": Product(scale=HERE)}
    groups = [ranked("A", "a")]
    before = moved(valley, products, groups, lambda name, make: make())
    valley.tried.clear()
    assert moved(valley, products, groups, lambda name, make: before[0]) == before
    assert not valley.tried


def test_of_a_model_its_answers_come_nearer(tiny, arrays, sound, scheme) -> None:
    """A range that is five paces too wide is found again, and twice the same."""
    trial = Trial(tiny, arrays, [Spoken(sound, (3, 14, 15, 9, 26, 5))])
    name = "model.encoder.conv2.weight"
    right = scheme.products[name]
    wide = Product(scale=step(LARGEST * right.scale * PACE**5), smooth=right.smooth)
    (better,) = moved(trial, {name: wide}, [ranked("second", name)], lambda name, make: make())
    assert better.product.scale < wide.scale
    alone = Scheme(products={name: better.product})
    assert trial.change(alone).divergence == better.after < better.before / 2
    again = moved(trial, {name: wide}, [ranked("second", name)], lambda name, make: make())
    assert again == [better]
