"""Prometheus text to numbers, differences and quantiles."""

import pytest

from edge_runtime.bench.scrape import Scrape

BEFORE = """\
# TYPE hops_seconds histogram
hops_seconds_bucket{stage="encode",le="0.1"} 1.0
hops_seconds_bucket{stage="encode",le="0.2"} 1.0
hops_seconds_bucket{stage="encode",le="+Inf"} 1.0
hops_seconds_sum{stage="encode"} 0.05
hops_seconds_count{stage="encode"} 1.0
"""
AFTER = """\
# TYPE hops_seconds histogram
hops_seconds_bucket{stage="encode",le="0.1"} 3.0
hops_seconds_bucket{stage="encode",le="0.2"} 5.0
hops_seconds_bucket{stage="encode",le="+Inf"} 5.0
hops_seconds_sum{stage="encode"} 0.45
hops_seconds_count{stage="encode"} 5.0
# TYPE tokens counter
tokens_total{kind="a"} 3.0
tokens_total{kind="b"} 4.0
"""


def test_growth_means_and_quantiles():
    grown = Scrape.parse(AFTER) - Scrape.parse(BEFORE)
    assert grown.mean("hops_seconds", stage="encode") == pytest.approx(0.1)
    # of four, two lie under 0.1 s and two under 0.2: the median is the edge, p75 half way on
    assert grown.quantile("hops_seconds", 0.5, stage="encode") == pytest.approx(0.1)
    assert grown.quantile("hops_seconds", 0.75, stage="encode") == pytest.approx(0.15)


def test_values_are_summed_over_labels_not_named():
    page = Scrape.parse(AFTER)
    assert page.value("tokens_total") == 7
    assert page.value("tokens_total", kind="b") == 4
    assert page.value("tokens_total", kind="c") is None


def test_what_is_not_there_is_none():
    assert Scrape({}).mean("hops_seconds") is None
    assert Scrape({}).quantile("hops_seconds", 0.5) is None


def test_beyond_the_last_edge_its_value_is_given():
    page = Scrape.parse(
        '# TYPE h histogram\nh_bucket{le="1.0"} 1.0\nh_bucket{le="+Inf"} 4.0\n'
        "h_sum 9.0\nh_count 4.0\n"
    )
    assert page.quantile("h", 0.95) == 1.0
