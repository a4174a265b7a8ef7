"""What the table of costs advises, and that it outlives a start."""

from __future__ import annotations

import pytest

from edge_runtime.decode import costs
from edge_runtime.decode.costs import Cost, Costs

SECOND = 16_000


def table(of: str = "a GPU") -> Costs:
    """Eight rows cost three times as much as one, sixteen eight times; longer audio more."""
    each = {1: 1.0, 4: 1.5, 8: 3.0, 16: 8.0}
    return Costs(
        of,
        tuple(
            Cost(rows, seconds * SECOND, factor * seconds, factor, factor / costs.STEPS)
            for rows, factor in each.items()
            for seconds in (2, 6)
        ),
    )


def test_rows_are_rounded_up_and_lengths_are_in_proportion() -> None:
    found = table()
    assert found.update(1, 2 * SECOND) == pytest.approx(2 + 1 + 1)
    assert found.update(1, 4 * SECOND) == pytest.approx(4 + 1 + 1)
    assert found.update(1, 9 * SECOND) == pytest.approx(9 + 1 + 1)
    assert found.update(3, 2 * SECOND) == found.update(4, 2 * SECOND) == pytest.approx(6)
    assert found.update(99, 2 * SECOND) == found.update(16, 2 * SECOND)


def test_a_batch_is_as_large_as_it_must_be_for_the_best_rate() -> None:
    found = table()
    # Rates: 1, 4/1.5, 8/3, 16/8 of a row's. Four rows are as quick as eight, and wait less.
    assert found.best(2 * SECOND, 16) == 4
    assert found.best(2 * SECOND, 3) == 1
    assert Costs().best(2 * SECOND, 5) == 5
    assert Costs().update(3, SECOND) == 0.0


def test_a_table_is_kept_for_what_it_was_measured_on(tmp_path) -> None:
    assert costs.load(tmp_path, "a GPU") is None
    costs.save(table(), tmp_path)
    assert costs.load(tmp_path, "a GPU") == table()
    assert costs.load(tmp_path, "another") is None
    (tmp_path / costs.FILE).write_text("{")
    assert costs.load(tmp_path, "a GPU") is None


def test_a_folder_that_cannot_be_written_costs_a_line(tmp_path, caplog) -> None:
    costs.save(table(), tmp_path / "gone")
    assert "the next start measures batches again" in caplog.text


@pytest.mark.parametrize(
    ("waiting", "first"), [(1, 1), (3, 3), (5, 5), (9, 8), (18, 16), (24, 16), (30, 30), (32, 32)]
)
def test_rows_are_split_where_that_takes_less_time(waiting: int, first: int) -> None:
    """As an H200 takes for 6 s of audio: a batch is as long as a full one of its size."""
    took = {1: 0.78, 2: 0.94, 4: 1.28, 8: 1.89, 16: 2.99, 32: 5.38}
    costs = Costs(
        "here", tuple(Cost(rows, 96_000, 1e-3 * each, 0, 0) for rows, each in took.items())
    )
    assert costs.first(waiting, 96_000) == first
    assert Costs().first(waiting, 96_000) == waiting
