"""What stays wide is what costs most for what it saves; the cheapest mix that does is taken."""

from __future__ import annotations

import numpy as np
import pytest

from edge_runtime.engines.calibrate.scheme import Product
from edge_runtime.engines.calibrate.search import NATS, Search
from edge_runtime.engines.calibrate.trial import Change

COSTS = {"model.encoder.conv1.weight": 0.3, "model.encoder.conv2.weight": 0.03,
         "model.encoder.conv3.weight": 0.2, "table": 0.02}  # fmt: skip
SIZES = {"model.encoder.conv1.weight": (8, 1, 127), "model.encoder.conv2.weight": (80, 40, 7),
         "model.encoder.conv3.weight": (40, 80, 3), "table": (5000, 40)}  # fmt: skip
HALVED = {"model.encoder.conv3.weight": 0.03}
"""What float16 costs where it costs anything."""


class Made:
    """A model whose groups cost what `COSTS` says: squares add up."""

    def __init__(self, slow: tuple[str, ...] = ()) -> None:
        self.slow = slow
        self.asked = 0

    def change(self, scheme, most=None) -> Change:
        self.asked += 1
        squares = sum(
            (COSTS if each.precision == "int8" else HALVED).get(name, 0.0) ** 2
            for name, each in scheme.products.items()
            if each.precision != "fp32"
        )
        return Change(squares**0.5, squares)

    def seconds(self, scheme) -> float:
        return 1.0 - sum(-0.01 if name in self.slow else 0.1 for name in scheme.products)


def search(made: Made | None = None, target: str = "size") -> Search:
    products = {name: Product(scale=0.5) for name in COSTS}
    weights = {name: np.zeros(shape, np.float32) for name, shape in SIZES.items()}
    return Search(made or Made(), products, weights, target)


def ranked(one: Search):
    return one.rank(lambda name, make: make())


def test_groups_come_by_the_square_of_their_error_for_each_byte() -> None:
    found = ranked(search())
    assert [each.name for each in found] == [
        "encoder conv1", "encoder conv3", "encoder conv2", "embedding table",
    ]  # fmt: skip
    assert [each.error for each in found] == pytest.approx([0.3, 0.2, 0.03, 0.02])
    assert found[0].bytes == 8 * 127 * 2 - (8 * 127 + 4 * 8)


def test_what_stays_wide_is_as_narrow_as_it_may_be() -> None:
    wide = {each.name: each.wide for each in ranked(search())}
    assert wide == {"encoder conv1": "fp16", "encoder conv2": "fp16", "encoder conv3": "fp32",
                    "embedding table": "fp32"}  # fmt: skip


def test_schemes_give_up_one_group_after_the_other() -> None:
    one = search()
    rungs = one.rungs(ranked(one))
    assert [len(rung) for rung in rungs] == [0, 1, 2, 3, 4]
    scheme = one.scheme(rungs[2])
    assert {name: each.precision for name, each in scheme.products.items()} == {
        "model.encoder.conv1.weight": "fp16",
        "model.encoder.conv2.weight": "int8",
        "model.encoder.conv3.weight": "fp32",
        "table": "int8",
    }
    sizes = [one.bytes(one.scheme(rung)) for rung in rungs]
    assert sizes == sorted(sizes)
    assert sizes[0] == sum(np.prod(shape) for shape in SIZES.values()) + 4 * (8 + 80 + 40 + 5000)


def test_the_first_that_does_is_taken() -> None:
    one = search()
    rungs = one.rungs(ranked(one))
    asked = []

    def judge(rung, scheme):
        asked.append(rung)
        return 0.1 * rung, True

    tried = one.descend(rungs, judge, lambda rung, make: make())
    # two convolutions alone are likelier to be wrong than `NATS` lets pass
    assert [each.passed for each in tried] == [False, False, True]
    assert asked == [0, 1, 2]
    assert tried[-1].wide == ("encoder conv1", "encoder conv3")
    assert tried[1].nats > NATS > tried[2].nats
    assert tried[2].increase == pytest.approx(0.2)


def test_texts_that_got_worse_are_no_mix_however_likely() -> None:
    one = search()
    rungs = one.rungs(ranked(one))
    tried = one.descend(rungs, lambda rung, scheme: (1.0, rung > 3), lambda rung, make: make())
    assert [each.passed for each in tried] == [False] * 4 + [True]


def test_for_speed_a_group_stays_wide_that_gains_no_time() -> None:
    one = search(Made(slow=("model.encoder.conv2.weight",)), "speed")
    found = ranked(one)
    assert [each.seconds for each in found if each.name != "encoder conv2"] == pytest.approx(
        [0.1] * 3
    )
    rungs = one.rungs(found)
    assert [[each.name for each in rung] for rung in rungs[:2]] == [
        ["encoder conv2"], ["encoder conv2", "encoder conv1"],
    ]  # fmt: skip


def test_what_was_measured_is_not_measured_again() -> None:
    made = Made()
    one = search(made)
    before = {each.name: each for each in ranked(one)}
    made.asked = 0
    assert one.rank(lambda name, make: before[name]) == ranked(search())
    assert made.asked == 0
