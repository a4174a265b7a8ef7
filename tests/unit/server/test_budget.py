"""Audio that comes faster than a client may send it waits; none is refused."""

from __future__ import annotations

import time

import pytest

from edge_runtime.server.budget import BURST, Budget, Budgets


def test_so_much_may_come_at_once_and_then_at_the_rate() -> None:
    budget, now = Budget(10.0), time.monotonic()
    assert budget.owed(BURST, now) == pytest.approx(0, abs=1e-3)
    assert budget.owed(5.0, now) == pytest.approx(0.5, abs=0.01)
    assert budget.owed(1.0, now + 0.5) == pytest.approx(0.1, abs=0.01)
    assert budget.owed(0.0, now + 60) == 0
    assert budget.owed(BURST + 10, now + 60) == pytest.approx(1.0)  # what is saved is bounded


async def test_it_waits(monkeypatch) -> None:
    budget = Budget(100.0)
    await budget.spend(BURST)
    began = time.monotonic()
    await budget.spend(10.0)
    assert time.monotonic() - began >= 0.09


def test_without_a_rate_nobody_waits() -> None:
    assert Budget(0.0).owed(1e9, 0.0) == 0


def test_a_client_has_one_for_all_its_connections_and_leaves_none_behind() -> None:
    budgets = Budgets(1.0)
    one, other = budgets.of("a"), budgets.of("b")
    assert budgets.of("a") is one is not other
    del one
    assert set(budgets._known) == {"b"}
