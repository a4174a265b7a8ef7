"""The real model beside itself, rounded: both serve real clips, and what each does is told."""

from __future__ import annotations

import shutil

import pytest

from edge_runtime.config import Canary, Config, Serving
from edge_runtime.engines import variants
from edge_runtime.engines import weights as readers
from edge_runtime.engines.build import BuildOptions, build
from edge_runtime.engines.calibrate.scheme import Product, Scheme
from edge_runtime.engines.calibrate.write import floats, write
from edge_runtime.engines.engine import read
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.engines.variant import describe
from edge_runtime.runtime.canary import load
from edge_runtime.server import Limits
from edge_runtime.words import total

CLIPS = ["1867-154075-0005", "7367-86737-0006"]


@pytest.fixture(scope="module")
def store(recipe, weights_folder, tmp_path_factory) -> Store:
    """A copy whose candidate has all weights rounded, and nothing else."""
    real, made = Store(), Store(tmp_path_factory.mktemp("store"))
    for each in (recipe, load_recipe("silero-vad")):
        for folder in (real.weights(each), real.graphs(each)):
            shutil.copytree(folder, made.root / each.name / folder.name)
    names = floats(recipe, readers.read(recipe, weights_folder)).weights
    scheme = Scheme(products=dict.fromkeys(names, Product()))
    variants.install(
        made,
        recipe,
        describe(made, recipe, scheme),
        lambda folder: write(recipe, made.weights(recipe), scheme, folder, "unsigned"),
        candidate=True,
    )
    return made


async def test_both_write_what_is_said(host, store, clip) -> None:
    config = Config(serving=Serving(port=0, device="cpu"), canary=Canary(share=0.5, min_sessions=2))
    server = await host(config, lambda metrics: load(config, store, metrics), Limits())
    pairs = []
    for name in CLIPS:
        said = []
        for _ in "ab":  # by the active model, then by the candidate
            events = await server.say(clip(name).pcm, sample_rate=clip(name).rate)
            said.append(" ".join(each["text"] for each in events if each["type"] == "final"))
        pairs.append((said[0], said[1]))
    assert min(len(text) for pair in pairs for text in pair) > 20
    assert total(pairs).rate <= 10.0
    async with server.http.get(server.url + "/healthz") as answer:
        canary = (await answer.json())["canary"]
    assert canary["ended"] is None, canary
    assert [canary[arm]["sessions"] for arm in ("active", "candidate")] == [2, 2]
    assert canary["candidate"]["words_per_second"] == pytest.approx(
        canary["active"]["words_per_second"], rel=0.15
    )


def test_its_engine_builds_and_is_smaller(recipe, store) -> None:
    pytest.importorskip("tensorrt_rtx_bindings", reason="pip install .[rtx]")
    tried = variants.candidate(store, recipe)
    half = read(build(recipe, store, BuildOptions("fp16", "tensorrt_rtx")))
    options = BuildOptions("int8", "tensorrt_rtx", variant=tried.info.fingerprint)
    integers = read(build(recipe, store, options))

    def plans(folder) -> int:
        return sum(path.stat().st_size for path in folder.glob("*.plan"))

    assert plans(integers.folder) < 0.75 * plans(half.folder)
    assert (integers.folder / "table.npy").stat().st_size < (
        0.51 * (half.folder / "table.npy").stat().st_size
    )
    assert integers.info.variant == tried.info.fingerprint
