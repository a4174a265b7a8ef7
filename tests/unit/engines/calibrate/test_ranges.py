"""Ranges: exact counts in fixed memory, right maxima for known distributions, and refusals."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from edge_runtime.engines.calibrate.ranges import (
    METHODS,
    Histogram,
    Observed,
    candidates,
    choose,
    refuse,
    suspicious,
)
from edge_runtime.engines.calibrate.ranges.histogram import BINS
from edge_runtime.errors import CalibrationError


def counted(*pieces):
    histogram = Histogram()
    for piece in pieces:
        histogram.add(np.asarray(piece, np.float32))
    return histogram


def normal(count=200_000, scale=1.0, seed=0):
    return np.random.default_rng(seed).normal(0, scale, count).astype(np.float32)


def rounding(values, absmax):
    """The error that `Histogram.error` foretells, made by rounding every value."""
    step = absmax / 127
    made = np.clip(np.round(values.astype(np.float64) / step), -127, 127) * step
    return float(((values - made) ** 2).sum() / (values.astype(np.float64) ** 2).sum())


def test_counts_are_those_of_the_values():
    seen = counted([[0.25, -0.75], [0.0, 0.75]], [0.5])
    assert (seen.low, seen.high, seen.absmax, seen.limit) == (-0.75, 0.75, 0.75, 1.0)
    assert seen.zeros == 1
    assert seen.nonzero == 4
    assert {int(k): int(seen.counts[k]) for k in np.flatnonzero(seen.counts)} == {
        BINS // 4: 1, BINS // 2: 1, BINS * 3 // 4: 2,
    }  # fmt: skip
    assert seen.square == pytest.approx(0.0625 + 0.25 + 2 * 0.5625)


@settings(max_examples=60)
@given(
    arrays.arrays(
        np.float32,
        st.integers(1, 40),
        elements=st.floats(-(2.0**127), 2.0**127, width=32),
    ),
    st.integers(0, 40),
)
def test_the_order_of_arrays_does_not_matter_and_nothing_is_lost(values, cut):
    whole = counted(values)
    parts = counted(values[cut:], values[:cut])
    np.testing.assert_array_equal(parts.counts, whole.counts)
    assert (parts.limit, parts.zeros) == (whole.limit, whole.zeros)
    assert whole.nonzero + whole.zeros == len(values)
    assert whole.absmax == np.abs(values).max()
    assert whole.absmax < whole.limit or whole.absmax == 0
    # the bin of the largest value is the last one in use
    if whole.nonzero:
        last = int(np.flatnonzero(whole.counts)[-1])
        assert last == int(whole.absmax * (BINS / whole.limit))


def test_widening_from_the_smallest_to_the_largest_keeps_every_count():
    seen = counted(np.full(7, 1e-38), np.full(5, 3e38))
    assert seen.nonzero == 12
    assert seen.counts[0] == 7
    assert seen.counts[-BINS // 2 :].sum() == 5


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_tensor_that_overflows_is_named_and_leaves_no_trace(bad):
    observed = Observed()
    observed.seen("encoder/layer 3/mlp", np.array([1.0, -2.0], np.float32))
    with pytest.raises(CalibrationError, match="encoder/layer 3/mlp overflows"):
        observed.seen("encoder/layer 3/mlp", np.array([1.0, bad], np.float32))
    assert observed.histograms["encoder/layer 3/mlp"].nonzero == 2


def test_padding_with_zeros_changes_no_candidate():
    values = normal(5000)
    assert candidates(counted(values)) == candidates(counted(values, np.zeros(100_000)))


def test_percentiles_are_those_of_the_values():
    values = normal()
    found = candidates(counted(values))
    assert list(found) == list(METHODS)
    for q in (99.9, 99.99, 99.999):
        exact = np.percentile(np.abs(values), q)
        assert found[f"percentile {q}"] == pytest.approx(exact, rel=0.01)
    assert found["min-max"] == np.abs(values).max()
    assert max(found.values()) == found["min-max"]


@pytest.mark.parametrize("absmax", [0.4, 1.0, 2.5, 4.0, 30.0])
def test_the_foretold_error_is_that_of_rounding_every_value(absmax):
    values = normal()
    assert counted(values).error(absmax) == pytest.approx(rounding(values, absmax), rel=0.01)


def test_the_least_square_error_is_found_where_8_bits_have_theirs():
    # of a Gaussian in 255 uniform steps it lies near 3.9 to 4.0 standard deviations
    values = normal(1_000_000)
    found = candidates(counted(values))["square error"]
    tried = np.linspace(3, values.max(), 60)
    best = tried[np.argmin([rounding(values, absmax) for absmax in tried])]
    assert found == pytest.approx(best, rel=0.1)
    assert 3.6 < found < 4.4


def test_entropy_leaves_outliers_out_and_an_even_spread_whole():
    bulk = normal()
    found = candidates(counted(bulk, [60.0]))
    assert found["min-max"] == 60
    assert 1.5 < found["entropy"] < 8
    even = np.random.default_rng(0).uniform(-1, 1, 200_000)
    assert candidates(counted(even))["entropy"] == pytest.approx(1, abs=0.02)


def test_a_few_values_have_candidates_too():
    found = candidates(counted([0.5, -0.25, 0.125]))
    assert all(0 < absmax <= 0.5 for absmax in found.values())
    assert found["entropy"] == 0.5


def test_the_least_error_of_the_tensor_decides_where_no_output_is_measured():
    # 5000 values at 1 and one at 1000: min-max would write all the others as zero
    values = np.concatenate([normal(5000), [1000.0]])
    (chosen,) = choose({"x": counted(values)}).values()
    assert not chosen.by_output
    assert chosen.errors == {
        method: pytest.approx(counted(values).error(absmax))
        for method, absmax in chosen.candidates.items()
    }
    assert chosen.method == min(METHODS, key=lambda method: chosen.errors[method])
    assert chosen.absmax == chosen.candidates[chosen.method]
    assert chosen.scale == chosen.absmax / 127


def test_the_least_error_of_the_output_decides_where_it_is_measured():
    seen = {"x": counted(normal()), "y": counted(normal(seed=1))}

    def error(name, absmax):
        return abs(absmax - candidates(seen["x"])["percentile 99.9"]) if name == "x" else None

    chosen = choose(seen, error)
    assert chosen["x"].by_output
    assert chosen["x"].method == "percentile 99.9"
    assert not chosen["y"].by_output
    assert list(chosen) == ["x", "y"]


def test_of_equal_candidates_the_widest_method_is_taken():
    chosen = choose({"x": counted(normal())}, lambda name, absmax: 1.0)["x"]
    assert chosen.method == "min-max"


def test_an_output_that_overflows_with_a_candidate_is_not_trusted():
    chosen = choose({"x": counted(normal())}, lambda name, absmax: math.inf)["x"]
    assert not chosen.by_output


def test_silent_and_constant_tensors_are_named():
    seen = {
        "good": counted(normal()),
        "silent": counted(np.zeros(9)),
        "stuck": counted(np.full(9, 0.5)),
        "absent": Histogram(),
    }
    with pytest.raises(CalibrationError) as caught:
        choose(seen)
    assert "silent (always 0), stuck (always 0.5), absent (never seen)" in caught.value.message
    assert "good" not in caught.value.message
    assert "silence" in caught.value.fix


def test_two_calibrations_give_the_same_bytes():
    once, again = (choose({"x": counted(normal(), normal(seed=1, scale=9))}) for _ in range(2))
    assert msgspec.json.encode(once) == msgspec.json.encode(again)


def test_what_was_seen_outlives_the_process(tmp_path):
    observed = Observed()
    observed.seen("a", normal(1000))
    observed.seen("b", np.zeros(4, np.float32))
    observed.save(tmp_path / "seen.npz")
    back = Observed.load(tmp_path / "seen.npz")
    for kept in (observed, back):
        kept.seen("a", normal(1000, 5, seed=1))
    assert list(back.histograms) == ["a", "b"]
    for name, histogram in observed.histograms.items():
        theirs = back.histograms[name]
        np.testing.assert_array_equal(theirs.counts, histogram.counts)
        for key in ("limit", "zeros", "low", "high", "square"):
            assert getattr(theirs, key) == getattr(histogram, key)
    assert [path.name for path in tmp_path.iterdir()] == ["seen.npz"]


def test_a_coarse_histogram_keeps_the_counts():
    counts, end = counted([0.1, 0.1, 0.6]).coarse(4)
    assert (counts, end) == ([2, 0, 1], 0.75)
    assert counted([]).coarse(4) == ([], 0.0)


class TestSuspicion:
    def setup_method(self):
        self.chosen = choose({name: counted(normal(seed=k)) for k, name in enumerate("abc")})
        self.other = {name: counted(normal(seed=9 + k)) for k, name in enumerate("abc")}

    def test_nobody_is_accused_by_audio_of_the_same_kind(self):
        assert suspicious(self.chosen, self.other) == []
        refuse([], 3)

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("factor", [10.0, 0.1])
    def test_a_scale_that_is_ten_times_off_is_named(self, method, factor):
        found = candidates(counted(normal()))
        self.chosen["b"] = msgspec.structs.replace(
            self.chosen["b"], absmax=found[method] * factor, method=method
        )
        (only,) = suspicious(self.chosen, self.other)
        assert only.name == "b"
        with pytest.raises(CalibrationError, match=r"ranges of 1 of 3 tensors .* b: ±"):
            refuse([only], 3)

    def test_ranges_of_silence_are_named(self):
        silent = choose({name: counted(normal(scale=1e-4)) for name in "abc"})
        found = suspicious(silent, self.other)
        assert [each.name for each in found] == ["a", "b", "c"]
        assert "cuts off" in found[0].why

    def test_one_outlier_in_other_audio_accuses_nobody(self):
        self.other["a"].add(np.array([25.0], np.float32))
        chosen = choose({"a": counted(normal())}, methods=["min-max"])
        assert suspicious(chosen, self.other) == []

    def test_many_outliers_do(self):
        self.other["a"].add(normal(1000, 25))
        chosen = choose({"a": counted(normal())}, methods=["min-max"])
        (only,) = suspicious(chosen, self.other)
        assert "as far as" in only.why

    def test_a_tensor_that_other_audio_never_shows_is_named(self):
        del self.other["c"]
        assert [each.name for each in suspicious(self.chosen, self.other)] == ["c"]
