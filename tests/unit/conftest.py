"""A speech model with a few thousand made-up weights: real graphs that build in a moment."""

from __future__ import annotations

import gc
import importlib.util
import json
import platform
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.device.cuda import open_driver
from edge_runtime.device.cuda.device import CudaDevice
from edge_runtime.engines.recipe import MoonshineRecipe, load_recipe, recipes_folder
from edge_runtime.engines.store import Store
from edge_runtime.engines.weights.base import moonshine_shapes
from edge_runtime.runtime import load as loading
from tests.fakes import cuda
from tests.fakes.ears import Ears
from tests.fakes.gpu import FakeGpu

_VALUES = {
    "name": '"made-up"', "requires": "[]", "decoder_tiles": "[1, 2]",
    "alignment_heads": "[[0, 1], [2, 0]]", "encoder_layers": "1", "decoder_layers": "3",
    "width": "24", "heads": "2", "head_dim": "12", "padded_head_dim": "16", "rotary": "8",
    "encoder_mlp": "32", "decoder_mlp": "32", "past": "40", "vocabulary": "50",
    "conv_channels": "[24, 48, 24]", "draft_tokens": "[1, 16]",
}  # fmt: skip


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """A GPU that is not there, behind `cuda.bindings`."""
    made = FakeGpu()
    cuda.install(monkeypatch, made)
    return made


@pytest.fixture
def cuda_device(gpu: FakeGpu) -> Iterator[CudaDevice]:
    """On the `gpu` of the test, where nothing may be left at its end."""
    made = CudaDevice(open_driver(0, "cuda-bindings"))
    yield made
    gc.collect()  # an error that was caught holds its frames, in a cycle
    made.close()
    gpu.check_released()


@pytest.fixture(scope="session")
def made_up_path(tmp_path_factory) -> Path:
    """Its recipe: that of a real model, with other numbers and one source."""
    text = (recipes_folder() / "moonshine-tiny-en.toml").read_text()
    text = re.sub(r"\[sources\.pypi\].*?(?=\[sources\.hub\])", "", text, flags=re.DOTALL)
    for key, value in _VALUES.items():
        text, count = re.subn(rf"^{key} = .*$", f"{key} = {value}", text, count=1, flags=re.M)
        assert count == 1, key
    path = tmp_path_factory.mktemp("recipes") / "made-up.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="session")
def made_up(made_up_path) -> MoonshineRecipe:
    recipe = load_recipe(made_up_path)
    assert isinstance(recipe, MoonshineRecipe)
    return recipe


@pytest.fixture(scope="session")
def made_up_kept(made_up, tmp_path_factory) -> Path:
    """The root of a store that has the made-up model, its graphs and no engine."""
    from safetensors.numpy import save_file

    random = np.random.default_rng(3)
    arrays = {
        name: random.normal(0, 0.2, shape).astype(np.float32)
        for name, shape in moonshine_shapes(made_up.architecture).items()
    }
    store = Store(tmp_path_factory.mktemp("made-up"))
    with (
        store.lock(made_up.name),
        store.replacing(store.root / made_up.name / "weights", "a test") as new,
    ):
        save_file(arrays, new / "model.safetensors")
        vocabulary = {f"t{number}": number for number in range(50)}
        (new / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))
    for precision in ("fp16", "fp32"):
        store.graphs(made_up, precision)
    return store.root


@pytest.fixture
def made_up_store(made_up_kept, tmp_path, monkeypatch) -> Store:
    """A copy of it, which is the store that commands use."""
    monkeypatch.setenv("EDGE_RUNTIME_STORE", str(tmp_path / "store"))
    return Store(shutil.copytree(made_up_kept, tmp_path / "store"))


@pytest.fixture(scope="session")
def made_up_scheme(made_up, made_up_kept):
    """Every product of the made-up model in integers."""
    from edge_runtime.engines import weights
    from edge_runtime.engines.calibrate.scheme import Product, Scheme, step
    from edge_runtime.engines.calibrate.write import floats

    full = floats(made_up, weights.read(made_up, Store(made_up_kept).weights(made_up)))
    return Scheme(products={name: Product(scale=step(6.0)) for name in full.weights})


@pytest.fixture
def calibrated(made_up, made_up_store):
    """`calibrated(scheme, candidate=…, **told)` puts a variant into the store; gives its folder.

    `spoil(folder)` may change what was written.
    """
    from edge_runtime.engines import variants
    from edge_runtime.engines.calibrate.scheme import Scheme
    from edge_runtime.engines.calibrate.write import write
    from edge_runtime.engines.variant import describe

    def install(scheme=None, *, candidate=False, store=made_up_store, spoil=None, **told) -> Path:
        scheme = scheme or Scheme(products={})

        def fill(folder: Path) -> None:
            write(made_up, store.weights(made_up), scheme, folder, "unsigned")
            if spoil is not None:
                spoil(folder)

        info = describe(store, made_up, scheme, **told)
        return variants.install(store, made_up, info, fill, candidate=candidate)

    return install


@pytest.fixture
def needs_rtx() -> None:
    if importlib.util.find_spec("tensorrt_rtx_bindings") is None:
        where = f"{platform.system()} {platform.machine()}"
        pytest.skip(f"TensorRT-RTX is not installed on this {where}: pip install .[rtx]")


@pytest.fixture
def loud_is_speech(made_up, made_up_store, monkeypatch) -> None:
    """The store has no detector: any graph stands in for it, and is never run."""
    folder = made_up_store.graphs(made_up)
    monkeypatch.setattr(loading.Loader, "_detector", lambda self, _: folder / "embedding.onnx")
    monkeypatch.setattr(loading.Loaded, "ear", lambda self, rows: Ears())
