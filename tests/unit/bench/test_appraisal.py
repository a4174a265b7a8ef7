"""What streams ask of a machine comes from what few of them took."""

from dataclasses import asdict, replace

import pytest

from edge_runtime.bench.appraisal import costs
from edge_runtime.bench.costs import PADDING
from edge_runtime.bench.met import Met
from edge_runtime.bench.scrape import Scrape
from edge_runtime.bench.spent import Spent
from edge_runtime.decode.update import Purpose
from tests.rehearsing import COSTS, SECONDS, play


def page(met, truth, slower=1.0):
    """A server's figures, had it met that at such costs; lanes `slower` than alone."""
    lines = []
    for purpose in Purpose:
        name, count = purpose.name.lower(), met.updates[purpose]
        redone = truth.partial if purpose is Purpose.PARTIAL else truth.closing
        steps = redone * count + truth.tokens * met.gaps[purpose]
        windows = met.windows[purpose]
        tokens = truth.tokens * (sum(windows) - PADDING * count)
        tokens += 2.0 * count * (purpose is Purpose.PARTIAL)  # in the middle of a word
        # Half of what does not lie in the window is the draft's.
        encoded = [truth.work(purpose, each, 0.0).early - truth.fixed / 2 for each in windows]
        draft = truth.fixed / 2 * count
        seconds = {"encode": sum(encoded), "draft": draft, "decode": truth.step * steps}
        lines += [
            f'edge_runtime_updates_total{{purpose="{name}"}} {count}',
            f'edge_runtime_passes_total{{purpose="{name}"}} {count + steps}',
            f'edge_runtime_tokens_total{{purpose="{name}",kind="produced"}} {tokens + count}',
            # what waits costs nobody anything
            f'edge_runtime_stage_seconds_sum{{purpose="{name}",stage="queue"}} 99',
        ]
        lines += [
            f'edge_runtime_stage_seconds_bucket{{purpose="{name}",stage="encode",le="{edge}"}} '
            f"{sum(slower * each <= edge for each in encoded)}"
            for edge in (0.02, 0.05, 0.1, 0.2, 0.3, float("inf"))
        ]
        lines += [
            f'edge_runtime_stage_seconds_sum{{purpose="{name}",stage="{stage}"}} {slower * taken}'
            for stage, taken in seconds.items()
        ]
    return Scrape.parse("\n".join(lines))


def spent(streams, truth, slower=1.0):
    met = play(streams, truth)
    one = Spent(streams, SECONDS, page(met, truth, slower), 0.0, 0.0)
    beside = 0.02 + streams * 0.008
    return replace(
        one,
        server=one.lanes + SECONDS * beside,
        clients=SECONDS * (0.01 + streams * 0.002),
        finals=tuple(each + 0.02 for each in met.finals),
        rests=tuple(each + 0.03 for each in met.rests),
    )


def rehearse(found, one):
    return play(one.streams, found)


def test_costs_are_found_again_in_what_they_came_to():
    truth = replace(COSTS, idle=0.03, together=0.0, between=0.0)
    found = costs([spent(1, truth), spent(4, truth)], rehearse, on_cpu=True, lanes=2, cores=2)
    for purpose in (Purpose.PARTIAL, Purpose.SPECULATIVE):
        for window in (1.5, 4.0, 7.0):
            wanted = truth.work(purpose, window, 1.0)
            assert found.work(purpose, window, 1.0).early == pytest.approx(wanted.early, rel=0.1)
            assert found.work(purpose, window, 1.0).whole == pytest.approx(wanted.whole, rel=0.1)
    apart = ("step", "tokens", "idle", "served", "clients", "rest", "between")
    wanted = asdict(replace(truth, rest=0.02, between=0.03))
    assert {each: asdict(found)[each] for each in apart} == pytest.approx(
        {each: wanted[each] for each in apart}, rel=0.02, abs=0.001
    )


def test_lanes_that_slow_each_other_are_told_from_costs():
    truth = replace(COSTS, together=0.0, between=0.0)
    both = play(4, truth)
    slower = 1 + 0.2 * both.both / both.busy
    measured = [spent(1, truth), spent(4, truth, slower)]
    found = costs(measured, rehearse, on_cpu=True, lanes=2, cores=4)
    assert found.together == pytest.approx(0.2, abs=0.05)
    assert found.step == pytest.approx(truth.step, rel=0.03)


def test_of_one_number_there_is_no_line():
    found = costs([spent(1, COSTS)], rehearse, on_cpu=True, lanes=2, cores=2)
    assert (found.together, found.idle) == (0.0, 0.0)
    assert found.served == pytest.approx(0.028)
    assert found.clients == pytest.approx(0.012)
    # On a GPU lanes' time is the device's.
    gpu = costs([spent(1, COSTS)], rehearse, on_cpu=False, lanes=2)
    assert gpu.served > found.served


def test_of_figures_that_say_nothing_nothing_comes():
    nothing = Spent(1, SECONDS, Scrape({}), 1.0, 1.0)
    found = costs([nothing], lambda found, one: Met(), on_cpu=True)
    assert (found.fixed, found.each, found.step, found.rest) == (0.0, 0.0, 0.0, 0.0)
