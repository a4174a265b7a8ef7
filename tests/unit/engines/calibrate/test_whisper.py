"""A made-up Whisper is measured and rounded as every model in tiles."""

from __future__ import annotations

import numpy as np

from edge_runtime.engines.calibrate.observe import Observer
from edge_runtime.engines.calibrate.scheme import TABLE, Scheme
from edge_runtime.engines.calibrate.sites import sites
from edge_runtime.engines.calibrate.trial import Spoken, Trial
from edge_runtime.engines.calibrate.write import floats
from edge_runtime.engines.export import shape

SOUND = np.random.default_rng(8).normal(0, 0.3, 9_000).astype(np.float32)
SAID = (11, 12, 13)


def test_what_every_product_reads_is_seen(whisper, whisper_arrays) -> None:
    full = floats(whisper, whisper_arrays)
    observer = Observer(full.graphs, full.weights[TABLE], shape(whisper))
    seen: dict[str, int] = {}
    observer(SOUND, SAID, lambda name, rows: seen.update({name: len(rows)}))
    names = {site.name for model in full.graphs.values() for site in sites(model)}
    # The waves of the spectrogram are no weights.
    assert not any("constant" in name for name in names)
    assert seen.keys() == names == full.weights.keys()
    opening = len(shape(whisper).opening())
    assert seen["model.decoder.layers.0.fc1.weight"] == opening + len(SAID)
    assert seen["model.encoder.layers.0.fc1.weight"] == whisper.architecture.context


def test_a_model_as_it_is_has_not_changed(whisper, whisper_arrays) -> None:
    trial = Trial(whisper, whisper_arrays, [Spoken(SOUND, SAID)])
    same = trial.change(Scheme(products={}))
    assert same.error == 0.0
    assert same.nats == 0.0
