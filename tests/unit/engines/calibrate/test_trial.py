"""A scheme that is tried: what it changes, and that what is tried is what is written."""

from __future__ import annotations

import numpy as np
import pytest

from edge_runtime.engines.calibrate.scheme import Product, Scheme
from edge_runtime.engines.calibrate.trial import Spoken, Trial
from edge_runtime.engines.calibrate.write import write_tiles

TOKENS = (3, 14, 15, 9, 26, 5)


@pytest.fixture(scope="module")
def trial(tiny, arrays, sound) -> Trial:
    return Trial(tiny, arrays, [Spoken(sound, TOKENS), Spoken(sound[:5000], TOKENS[:2])])


def test_nothing_rounded_changes_nothing(trial) -> None:
    change = trial.change(Scheme(products={}))
    assert (change.error, change.nats) == (0.0, 0.0)


def test_all_rounded_changes_more_than_a_part(trial, scheme) -> None:
    whole = trial.change(scheme)
    conv = {name: each for name, each in scheme.products.items() if "conv2" in name}
    layer = {name: each for name, each in scheme.products.items() if "decoder.layers.2" in name}
    parts = [trial.change(Scheme(products=each)).error for each in (conv, layer)]
    assert min(parts) > 1e-4
    assert max(parts) < whole.error < 0.5


def test_float16_changes_less_than_integers(trial, scheme) -> None:
    halves = Scheme(
        products={name: Product(precision="fp16") for name in scheme.products if name != "table"}
    )
    assert 0 < trial.change(halves).error < trial.change(scheme).error / 10


def test_the_table_alone_is_rounded_at_both_ends(trial, scheme) -> None:
    change = trial.change(Scheme(products={"table": scheme.products["table"]}))
    assert 1e-4 < change.error < 0.2


def test_a_range_ten_times_too_wide_is_seen(trial, scheme) -> None:
    name = "model.decoder.layers.1.mlp.fc1.weight"
    product = scheme.products[name]
    right = trial.change(Scheme(products={name: product}))
    scale = float(np.float16(10 * product.scale))
    wrong = Product(scale=scale, smooth=product.smooth)
    assert trial.change(Scheme(products={name: wrong})).error > 3 * right.error


def test_the_first_clips_may_do(trial, scheme) -> None:
    assert trial.change(scheme, 1) != trial.change(scheme)


def test_it_writes_what_the_writer_writes(trial, tiny, arrays, scheme, tmp_path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    trial.write(scheme, ours)
    write_tiles(tiny, arrays, scheme, theirs, "unsigned")
    for path in ours.iterdir():
        assert path.read_bytes() == (theirs / path.name).read_bytes(), path.name
    assert {path.name for path in theirs.iterdir()} - {path.name for path in ours.iterdir()} == {
        "scheme.json"
    }


def test_time_is_time(trial) -> None:
    assert 0 < trial.seconds(Scheme(products={})) < 5
