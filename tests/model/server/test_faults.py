"""A share of `tools/faults`: what one session meets no other feels, and nothing is left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from injection import main, processes
from injection.clients import FAULTS
from injection.drill import Left, drill, leaks, spoken
from injection.engine import KINDS
from injection.house import house

from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import ModelMissing

MANIFEST = Path(__file__).parents[3] / "audio" / "manifest.tsv"
SEED = "20261130"


@pytest.fixture(autouse=True)
def model():
    try:
        Store().weights(load_recipe("moonshine-tiny-en"))
    except ModelMissing as missing:
        pytest.skip(str(missing))


async def test_faults_cost_one_session_at_most_and_leave_nothing_behind(monkeypatch):
    monkeypatch.setattr(processes, "HANG", 2.0)
    async with house(idle=1.0, blocked=1.0) as server:
        said = await spoken(server, main.clips(MANIFEST))
        assert [len(each.text.split()) > 4 for each in said] == [True] * 3
        found = [
            await drill(server, kind, 1 if kind in KINDS else 2, said, SEED) for kind in FAULTS
        ]
    ended = [main.ended(kind, 1, said, SEED, slack=10.0) for kind in processes.PROCESSES]
    found += await asyncio.gather(*ended)
    assert {each.kind: each.problems for each in found if each.problems} == {}
    assert [each.met > 0 for each in found if each.kind in KINDS] == [True] * 3


def test_what_is_left_behind_is_told():
    before = Left(0, 4, 9, 30, 500 << 20)
    assert leaks(before, Left(0, 5, 9, 33, 510 << 20)) == []
    assert leaks(before, Left(0, 9, 9, 30, 600 << 20)) == [
        "tasks: 4 before, 9 after",
        "resident: 500 MB before, 600 after",
    ]
