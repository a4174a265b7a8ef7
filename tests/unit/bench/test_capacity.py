"""What one stream costs foretells how many there may be; the search for the most of them."""

from dataclasses import replace

import pytest

from edge_runtime.bench.capacity import largest, predict
from edge_runtime.bench.costs import Costs, Spent, costs
from edge_runtime.bench.scrape import Scrape
from edge_runtime.runtime.ladder import STEPS

FEW = Costs(
    fixed=0.02, each=0.011, guesses=0.2, idle=0.02, served=0.015, clients=0.005,
    waits=(0.55, 0.6), talks=(5.0, 8.0, 12.0), pauses=(1.2, 1.4), lanes=2, cores=2,
)  # fmt: skip
"""About what a laptop takes."""


def page(partials: float, updates: int, closing: float, closings: int, audio: float) -> Scrape:
    """Figures that grew by that many seconds of lanes, and updates."""
    lines = [f"edge_runtime_audio_seconds_total {audio}"]
    for purpose, seconds, count in (
        ("partial", partials, updates),
        ("final", closing / 4, closings // 4),
        ("speculative", closing * 3 / 4, closings - closings // 4),
    ):
        lines.append(f'edge_runtime_updates_total{{purpose="{purpose}"}} {count}')
        lines.append(
            f'edge_runtime_stage_seconds_sum{{purpose="{purpose}",stage="encode"}} {seconds}'
        )
        # what waits costs nobody anything
        lines.append(f'edge_runtime_stage_seconds_sum{{purpose="{purpose}",stage="queue"}} 99')
    return Scrape.parse("\n".join(lines))


@pytest.mark.parametrize("held", [0, 1, 2, 5, 8, 13, 64])
def test_the_most_is_found_by_doubling_and_halving(held):
    tried, told = [], []

    def holds(streams):
        tried.append(streams)
        return streams <= held

    assert largest(holds, 64, lambda low, high: told.append((low, high))) == held
    assert len(tried) == len(set(tried)) <= 13
    assert len(told) == len(tried)
    assert told[-1][0] == held


def test_from_what_is_expected_on_it_is_found_sooner():
    tried = []

    def holds(streams):
        tried.append(streams)
        return streams <= 23

    assert largest(holds, 512, first=20, growth=1.25) == 23
    assert tried == [20, 25, 22, 23, 24]
    tried.clear()
    assert largest(holds, 512, first=30, growth=1.25, near=0.1) == 22
    assert tried == [30, 24, 19, 21, 22]
    assert largest(lambda streams: False, 512, first=30, growth=1.25) == 0
    assert largest(lambda streams: True, 64, first=60, growth=1.25) == 64


def test_one_waits_as_long_as_it_did_alone_and_more_wait_longer():
    one, some, many = (predict(FEW, streams).p95 for streams in (1, 12, 60))
    # A final that was guessed in the silence before its endpoint costs no time, also among others.
    assert one == pytest.approx(some, abs=0.02) == 0.6
    assert many > 0.9


def test_it_is_the_same_each_time_and_gives_way_by_the_ladder():
    assert predict(FEW, 20) == predict(FEW, 20)
    assert [predict(FEW, streams).level for streams in (1, 20, 28)] == [0, 2, 3]
    assert not STEPS[predict(FEW, 90).level].admits


def test_lanes_are_as_busy_as_arithmetic_says():
    alone = replace(FEW, guesses=0.0, talks=(8.0,), pauses=(2.0,))
    hop = 5.5 * alone.partial
    wanted = 0.8 * alone.partial / hop + alone.update(8.0) / 10
    assert predict(alone, 1, 300).lanes == pytest.approx(wanted, rel=0.1)


def test_what_the_rest_takes_of_the_processors_slows_lanes_that_work_together():
    busy = replace(FEW, served=0.03)
    assert predict(busy, 28).lanes > predict(FEW, 28).lanes
    gpu = replace(FEW, on_cpu=False, cores=16)  # there it is one interpreter that all share
    assert predict(replace(gpu, served=0.04), 28).p95 > predict(gpu, 28).p95


def test_costs_are_lines_through_what_few_streams_took():
    # Partials at 4 s of 8, on average: with the padding 0.02 + 4.5 × 0.01. The turns' ends, and
    # one guess a turn at 4 s.
    turns = 6
    closing = turns * (0.02 + 8.5 * 0.01) + turns * (0.02 + 4.5 * 0.01)
    grown = page(0.065 * 100, 100, closing, 2 * turns, 10.0 * turns)
    lanes = 0.065 * 100 + closing
    spent = [
        Spent(1, 60.0, grown, lanes + 60 * 0.05, 60 * 0.01),
        Spent(4, 60.0, grown, lanes + 60 * 0.11, 60 * 0.04),
    ]
    found = costs(spent, [0.6], [8.0], [2.0], on_cpu=True)
    assert found.fixed == pytest.approx(0.02)
    assert found.each == pytest.approx(0.01)
    assert found.guesses == pytest.approx(1 / 8)
    assert (found.idle, found.served) == (pytest.approx(0.03), pytest.approx(0.02))
    assert found.clients == pytest.approx(0.01)
    assert found.partial == pytest.approx(0.065)
    # On a GPU lanes' time is the device's.
    gpu = costs(spent[:1], [0.6], [8.0], [2.0], on_cpu=False)
    assert (gpu.idle, gpu.served) == (0.0, pytest.approx(lanes / 60 + 0.05))


@pytest.mark.parametrize(("partial", "closing"), [(0.1, 0.05), (0.01, 0.9)])
def test_costs_of_odd_figures_are_no_nonsense(partial, closing):
    grown = page(partial * 100, 100, closing * 12, 12, 60.0)
    found = costs([Spent(1, 60.0, grown, 1.0, 1.0)], [0.6], [8.0], [2.0], on_cpu=True)
    assert found.fixed >= 0
    assert found.each >= 0
    assert found.partial == pytest.approx(partial, rel=0.01)
    assert found.served == 0  # lanes took more than the processor gave: it waited
