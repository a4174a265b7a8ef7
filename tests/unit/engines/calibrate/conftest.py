"""A made-up model of a few thousand weights, a scheme for all of it, and what calibrates it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import soundfile
from onnx import numpy_helper

from edge_runtime.engines.calibrate.observe import Observer
from edge_runtime.engines.calibrate.scheme import Product, Scheme, step
from edge_runtime.engines.calibrate.smoothing import Channels, factors
from edge_runtime.engines.calibrate.write import Floats, floats
from edge_runtime.engines.export import moonshine
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store


@pytest.fixture(scope="session")
def sound() -> np.ndarray:
    return np.random.default_rng(8).normal(0, 0.3, 9_000).astype(np.float32)


@pytest.fixture(scope="session")
def full(tiny, arrays) -> Floats:
    return floats(tiny, arrays)


@pytest.fixture(scope="session")
def observer(tiny, full) -> Observer:
    return Observer(full.graphs, full.weights["table"], moonshine.shape(tiny))


@pytest.fixture(scope="session")
def channels(observer, sound) -> Channels:
    channels = Channels()
    observer(sound, [3, 14, 15, 9, 26, 5], channels.seen)
    return channels


@pytest.fixture(scope="session")
def scheme(channels, full) -> Scheme:
    """Every product in integers, every other one smoothed."""
    products = {}
    for number, (name, largest) in enumerate(channels.largest.items()):
        smooth = factors(name, largest, full.weights[name]) if number % 2 else ()
        parts = np.array(smooth or [1.0], np.float32)
        products[name] = Product(scale=step((largest / parts).max()), smooth=smooth)
    return Scheme(products=products)


@pytest.fixture(scope="session")
def loudness(published, tmp_path_factory) -> Path:
    """A voice detector that takes all that is loud for speech, and nothing else."""
    model = onnx.load(str(published))
    units = np.where(np.arange(128) < 64, 1.0, -1.0)  # the loud, then the quiet
    gates = np.zeros((4, 128))
    gates[0] = gates[1] = 20.0  # in, out
    gates[2] = -20.0  # forget
    weight = np.zeros((4, 128, 128))
    weight[3] = units[:, None]
    bias = np.zeros((2, 4, 128))
    bias[0] = gates
    bias[0, 3] = -4.0 * units
    values = {
        "output.weight": 0.2 * units.reshape(1, 128, 1),
        "onnx::LSTM_1": weight.reshape(1, 512, 128),
        "onnx::LSTM_2": np.zeros((1, 512, 128)),
        "onnx::LSTM_3": bias.reshape(1, 1024),
    }
    for tensor in model.graph.initializer:
        value = values.get(tensor.name)
        if value is None and tensor.name.startswith("encoder"):
            shape = tuple(tensor.dims)
            value = np.full(shape, 0.01) if len(shape) > 1 else np.zeros(shape)
        if value is not None:
            made = numpy_helper.from_array(value.astype(np.float32), tensor.name)
            tensor.CopyFrom(made)
    path = tmp_path_factory.mktemp("loudness") / published.name
    onnx.save(model, str(path))
    return path


@pytest.fixture(scope="session")
def ready(made_up_kept, loudness, tmp_path_factory) -> Path:
    """The root of a store with a made-up model and a detector: all that `calibrate` needs."""
    root = shutil.copytree(made_up_kept, tmp_path_factory.mktemp("ready") / "store")
    store = Store(root)
    with store.lock("silero-vad"), store.replacing(root / "silero-vad" / "weights", "test") as new:
        shutil.copyfile(loudness, new / loudness.name)
    store.graphs(load_recipe("silero-vad"))
    return root


@pytest.fixture
def store(ready, tmp_path) -> Store:
    """A copy of it."""
    return Store(shutil.copytree(ready, tmp_path / "store"))


@pytest.fixture(scope="session")
def recordings(tmp_path_factory) -> Path:
    """Eighty seconds by four speakers, and two recordings in which nobody speaks."""
    folder = tmp_path_factory.mktemp("recordings")
    random = np.random.default_rng(4)
    for number in range(16):
        name = f"{100 + number % 4}-7-{number:04}"
        sound = random.normal(0, 0.02 + 0.01 * (number % 5), 5 * 16000)
        sound = np.convolve(sound, np.ones(1 + number % 3), "same")
        soundfile.write(folder / f"{name}.wav", sound.astype(np.float32), 16000, "FLOAT")
    for number in range(2):
        sound = np.full(3 * 16000, 1e-5 * (number + 1), np.float32)
        soundfile.write(folder / f"quiet-{number}.wav", sound, 16000, "FLOAT")
        (folder / f"quiet-{number}.txt").write_text("")
    return folder
