"""What a model on trial may differ by: each limit, from both sides."""

from __future__ import annotations

import pytest

from edge_runtime.config import Canary
from edge_runtime.runtime.canary.breach import breach
from edge_runtime.runtime.canary.counts import UPDATES, Counts

LIMITS = Canary(
    min_sessions=10, max_rejected_increase=0.1, max_conflict_increase=0.5,
    max_failed_increase=0.2, max_latency_ratio=2.0, max_length_change=0.25,
)  # fmt: skip


def counts(**changes) -> Counts:
    usual = {
        "sessions": 10, "failed": 1, "finals": 100, "rejected": 5, "conflicts": 10, "words": 200,
        "speech": 100.0, "updates": [0.01] * 50,
    }  # fmt: skip
    return Counts(**{**usual, **changes})


@pytest.mark.parametrize(
    ("within", "beyond", "said"),
    [
        ({"failed": 3}, {"failed": 4}, "40.0% of its sessions fail, 10.0% of the active model's"),
        ({"rejected": 15}, {"rejected": 16}, "16.0% of its finals are rejected, 5.0% of"),
        ({"conflicts": 60}, {"conflicts": 61}, "61.0% of its finals contradict stable words"),
        ({"updates": [0.02]}, {"updates": [0.021]}, "up to 21.0 ms, 2.10 times the active model's"),
        ({"words": 250}, {"words": 251}, "it writes 2.51 words a second, the active model 2.00"),
        ({"words": 150}, {"words": 149}, "it writes 1.49 words a second"),
    ],
)
def test_each_limit_is_held_and_no_more(within, beyond, said) -> None:
    assert breach(counts(), counts(**within), LIMITS) is None
    found = breach(counts(), counts(**beyond), LIMITS)
    assert found is not None
    assert said in found
    assert "(canary.max_" in found


def test_what_is_better_is_no_breach() -> None:
    better = counts(failed=0, rejected=0, conflicts=0, updates=[0.001])
    assert breach(counts(), better, LIMITS) is None


@pytest.mark.parametrize("few", [{"active": 9, "trial": 10}, {"active": 10, "trial": 9}])
def test_nothing_is_judged_by_a_few_sessions(few) -> None:
    bad = counts(sessions=few["trial"], rejected=100)
    assert breach(counts(sessions=few["active"]), bad, LIMITS) is None


def test_what_said_nothing_is_not_compared() -> None:
    silent = Counts(sessions=10)
    assert breach(silent, silent, LIMITS) is None
    assert breach(counts(), silent, LIMITS) is None
    assert silent.told() == {
        "sessions": 10, "finals": 0, "failed_share": 0.0, "rejected_share": 0.0,
        "conflict_share": 0.0, "words_per_second": None, "update_p95_ms": None,
    }  # fmt: skip


def test_latency_is_that_of_the_latest_updates() -> None:
    found = Counts()
    assert found.latency is None
    found.updates.extend([9.0] * UPDATES)
    found.updates.extend(number / UPDATES for number in range(1, UPDATES + 1))
    assert found.latency == pytest.approx(0.95, abs=0.002)
    assert found.told()["update_p95_ms"] == pytest.approx(950, abs=2)
