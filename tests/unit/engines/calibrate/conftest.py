"""A made-up model of a few thousand weights, and a scheme for all of it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from edge_runtime.engines.calibrate.observe import Observer
from edge_runtime.engines.calibrate.scheme import Product, Scheme, step
from edge_runtime.engines.calibrate.smoothing import Channels, factors
from edge_runtime.engines.calibrate.write import Floats, floats
from edge_runtime.engines.export import moonshine
from edge_runtime.engines.recipe import MoonshineRecipe, load_recipe
from edge_runtime.engines.weights.base import moonshine_shapes


@pytest.fixture(scope="session")
def tiny() -> MoonshineRecipe:
    recipe = load_recipe("moonshine-tiny-en")
    assert isinstance(recipe, MoonshineRecipe)
    small = msgspec.structs.replace(
        recipe.architecture, encoder_layers=2, decoder_layers=3, width=24, heads=2, head_dim=12,
        padded_head_dim=16, rotary=8, encoder_mlp=32, decoder_mlp=32, past=40, vocabulary=50,
        conv_channels=(24, 48, 24),
    )  # fmt: skip
    return msgspec.structs.replace(
        recipe, architecture=small, decoder_tiles=(1, 2), alignment_heads=((0, 1), (2, 0)),
        buckets=msgspec.structs.replace(recipe.buckets, draft_tokens=(1, 16)),
    )  # fmt: skip


@pytest.fixture(scope="session")
def arrays(tiny) -> dict[str, np.ndarray]:
    random = np.random.default_rng(2)
    made = {}
    for name, shape in moonshine_shapes(tiny.architecture).items():
        spread = 1.0 if "norm" in name else 3.0 / np.sqrt(np.prod(shape[1:]))
        made[name] = random.normal(0, spread, shape).astype(np.float32)
    return made


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
