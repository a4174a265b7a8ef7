"""What one stream costs foretells how many there may be; the search for the most of them."""

from dataclasses import replace

import pytest

from edge_runtime.bench.capacity import largest, predict
from edge_runtime.bench.costs import Costs, costs
from edge_runtime.bench.scrape import Scrape

ONE = Costs(
    partial=0.05, closing=0.12, beside=0.06, waits=(0.55, 0.6), talks=(5.0, 8.0),
    pauses=(1.2, 1.4), lanes=2, cores=2,
)  # fmt: skip


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


def test_one_waits_as_long_as_it_did_alone_and_more_wait_longer():
    one, few, many = (predict(ONE, streams).p95 for streams in (1, 8, 40))
    assert one == pytest.approx(0.6, abs=0.02)
    assert one < few < 0.9 < many


def test_it_is_the_same_each_time_and_gives_way_by_the_ladder():
    assert predict(ONE, 16) == predict(ONE, 16)
    assert predict(ONE, 1).level == 0
    assert predict(ONE, 16).level > 0


def test_lanes_of_a_gpu_do_not_share_the_processor_until_it_is_full():
    gpu = replace(ONE, cores=16, on_cpu=False)
    assert predict(gpu, 8).speed == 1
    assert predict(gpu, 400).speed < 0.1
    assert predict(ONE, 8).speed == pytest.approx((2 - 8 * 0.06) / 2)


def test_costs_are_what_the_figures_grew_by():
    page = "\n".join(
        [
            *(
                f'edge_runtime_stage_seconds_sum{{purpose="{purpose}",stage="{stage}"}} {seconds}'
                for purpose, seconds in (("partial", 1), ("final", 0.1), ("speculative", 0.2))
                for stage in ("queue", "encode", "draft", "decode")
            ),
            'edge_runtime_updates_total{purpose="partial"} 60',
            "edge_runtime_audio_seconds_total 30",
        ]
    )
    found = costs(Scrape.parse(page), 6.9, [0.6], [8.0, 7.0], [2.0, 3.0])
    assert found.partial == pytest.approx(3 / 60)  # what waits costs nobody anything
    assert found.closing == pytest.approx(0.9 / 30 * 10)  # of every 30 s; a turn takes 10
    assert found.beside == pytest.approx((6.9 - 3.9) / 30)
