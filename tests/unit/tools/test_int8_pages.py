"""Pages of 8-bit integers give back what they should, with and without what was lost."""

from __future__ import annotations

import numpy as np
import pytest
from int8_pages import GROUP, Pages, changed, rounded


@pytest.fixture
def rows() -> np.ndarray:
    """(40, 96) float32, groups of very different sizes."""
    random = np.random.default_rng(2)
    return (random.normal(0, 1, (40, 96)) * random.uniform(0.01, 5, (40, 1))).astype(np.float32)


def put(way: str, rows: np.ndarray, times: int = 1) -> list[np.ndarray]:
    """What is read after each of so many steps; all are put there at the first."""
    pages, page, read = Pages(way), rows.copy(), []
    for step in range(times):
        pages.put("k", page, len(rows) if step else 0)
        read.append(page.copy())
    return read


def far(given: np.ndarray, rows: np.ndarray) -> float:
    """The mean error, as a part of the numbers."""
    return float(np.abs(given - rows).mean() / np.abs(rows).mean())


def test_a_number_is_off_by_half_a_step_of_its_group_at_most(rows) -> None:
    groups = rows.reshape(-1, GROUP)
    steps = np.abs(groups).max(axis=1, keepdims=True) / 127
    assert (np.abs(rounded(groups) - groups) <= 0.55 * steps).all()
    assert not rounded(np.zeros((2, GROUP), np.float32)).any()


def test_what_lies_there_is_not_rounded_again(rows) -> None:
    first, second = put("int8", rows, 2)
    assert (first == second).all()
    assert (rounded(first.reshape(-1, GROUP)) == first.reshape(-1, GROUP)).all()


def test_errors_that_are_carried_even_out(rows) -> None:
    (once,) = put("int8", rows)
    assert 0.002 < far(once, rows) < 0.02
    assert far(put("int8-twice", rows)[0], rows) < far(once, rows) / 50
    assert far(put("float16", rows)[0], rows) < far(once, rows) / 10
    steps = put("int8-carried", rows, 40)
    assert far(np.mean(steps, axis=0), rows) < far(once, rows) / 5
    assert far(steps[-1], rows) > far(once, rows) / 2, "a single step is no better"


def test_an_error_that_is_handed_on_keeps_sums_of_rows_right() -> None:
    rows = np.repeat(np.random.default_rng(3).normal(0, 1, (1, 96)).astype(np.float32), 60, axis=0)
    (once,), (handed,) = put("int8", rows), put("int8-next", rows)
    off = [np.abs(each.sum(axis=0) - rows.sum(axis=0)).mean() for each in (once, handed)]
    assert off[1] < off[0] / 10


def test_tokens_that_changed_are_counted() -> None:
    assert changed((1, 2, 3), (1, 2, 3)) == 0
    assert changed((1, 2, 3), (1, 3)) == 1
    assert changed((), (4, 5)) == 2
    assert changed((1, 2, 3, 4), (2, 3, 9)) == 2
