"""A model loads on the first device that takes it: its engine is found, or the next one is used.

The GPU is a fake one, TensorRT runs the graphs of a made-up model on it: the rest is real.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from edge_runtime import device as devices
from edge_runtime.audio import FRAME
from edge_runtime.config import Computing, Config
from edge_runtime.decode import proof
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.device.tensorrt import TensorRT, TensorRTDevice
from edge_runtime.engines import manifest
from edge_runtime.engines.build.contract import Signature, signatures
from edge_runtime.engines.build.profiles import Ranges, profiles, ranges
from edge_runtime.engines.plans import EngineInfo
from edge_runtime.engines.recipe import MoonshineRecipe
from edge_runtime.engines.store import ENGINE, Store, graphs_fingerprint
from edge_runtime.engines.variant import Variant, read
from edge_runtime.errors import (
    DeviceError,
    DeviceLost,
    EngineMismatch,
    MissingExtra,
    ModelMissing,
    RecipeError,
)
from edge_runtime.events import Final
from edge_runtime.runtime import load
from edge_runtime.runtime.load import Loader
from edge_runtime.runtime.rings import ring_memory
from edge_runtime.transcribe import Transcriber
from tests.fakes import cuda, tensorrt
from tests.fakes.gpu import FakeGpu

VERSION = "10.3.0"
SIZE = Size(1, 32_000)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """A machine whose only GPU device is TensorRT."""
    gpu = FakeGpu()
    cuda.install(monkeypatch, gpu)
    tensorrt.connect(monkeypatch, gpu)
    monkeypatch.setattr(devices, "present", lambda: True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    library = TensorRT("tensorrt", VERSION, tensorrt)
    monkeypatch.setattr(
        "edge_runtime.device.tensorrt.device.find_tensorrt", lambda flavour: library
    )
    return gpu


@pytest.fixture
def built(made_up: MoonshineRecipe, made_up_store: Store) -> Callable[..., Path]:
    """An engine of the made-up model in the store, `changes` made to what it was built for.

    Its plans compute in floating point, whatever they are said to be.
    """

    def build(made_in: str = "fp32", **changes: object) -> Path:
        precision = made_in
        graphs = made_up_store.graphs(made_up, precision)
        hashes = made_up_store.hashes(made_up)
        info = EngineInfo(
            model=made_up.name,
            recipe=made_up.hash,
            weights=hashes,
            graphs=graphs_fingerprint(made_up, precision, hashes.values()),
            precision=precision,
            split=made_up.decoder_tiles,
            tensorrt="tensorrt",
            version=VERSION,
            target=("8.7",),
            rows=1,
            samples=SIZE.samples,
            queries=16,
            built="2026-01-01T00:00:00",
        )
        info = msgspec.structs.replace(info, **changes)
        folder = made_up_store.root / made_up.name / info.fingerprint
        folder.mkdir()
        most = ranges(made_up, info.rows, info.samples)
        for name, signature in signatures(made_up, precision).items():
            limits = [bounds(signature, chosen) for chosen in profiles(signature, most, "tensorrt")]
            tensorrt.Plan(str(graphs / f"{name}.onnx"), limits).write(folder / f"{name}.plan")
        for name in ("table.npy", "shape.json", "vocabulary.json"):
            shutil.copyfile(graphs / name, folder / name)
        shutil.copyfile(graphs / "embedding.onnx", folder / "vad.onnx")
        cpu = Chain(OnnxDevice(), made_up_store.graphs(made_up))
        proof.write(proof.answers(cpu, info.samples), folder)
        (folder / ENGINE).write_bytes(msgspec.json.encode(info))
        manifest.seal(folder, "a test")
        return folder

    return build


def bounds(signature: Signature, chosen: Ranges) -> dict[str, list[list[int]]]:
    """The least, usual and largest shape of every input."""
    sizes = [
        {dim: getattr(each, bound) for dim, each in chosen.items()}
        for bound in ("least", "usual", "most")
    ]
    return {
        name: [list(tensor.sized(each)) for each in sizes]
        for name, tensor in signature.inputs.items()
    }


@pytest.fixture
def make(made_up_path: Path, made_up_store: Store, gpu: FakeGpu):
    def loader(
        device: str = "auto",
        precision: str = "fp32",
        size: Size = SIZE,
        least: Size | None = None,
        trial: Variant | None = None,
    ) -> Loader:
        computing = Computing(precision=precision, lanes=1)
        return Loader(
            made_up_path,
            device,
            size,
            least=least,
            computing=computing,
            store=made_up_store,
            trial=trial,
        )

    return loader


@pytest.fixture
def own_detector(made_up_store: Store, made_up: MoonshineRecipe, monkeypatch) -> None:
    """Without a detector of its own in the store, any graph will do: nobody listens here."""
    folder = made_up_store.graphs(made_up)
    monkeypatch.setattr(Loader, "_detector", lambda self, _: folder / "embedding.onnx")


def text(loaded: load.Loaded) -> list[tuple[int, ...]]:
    """The tokens of two noises."""
    runner = Runner(loaded.chain, SIZE)
    random = np.random.default_rng(5)
    found = []
    for seconds in (0.7, 1.3):
        noise = random.normal(0, 0.3, int(16000 * seconds)).astype(np.float32)
        update = Update("s", 1, Purpose.FINAL, 0, len(noise), draft=(5, 7, 9), limit=12)
        found.append(runner.run([update], [[noise]])[0].tokens)
    return found


def test_an_engine_runs_and_says_what_the_cpu_says(make, built, own_detector) -> None:
    engine = built()
    loaded = make().load()
    assert isinstance(loaded.device, TensorRTDevice)
    assert loaded.device.name == "tensorrt 10.3 (Fake GPU, 8.7)"
    assert loaded.fallback is None
    assert not loaded.on_cpu
    assert loaded.chain.dtype == np.float32
    said = text(loaded)
    assert said == text(make("cpu").load())
    assert len(set(said)) == 2
    assert engine.is_dir()


def test_an_engine_that_says_something_else_does_not_serve(make, built, own_detector) -> None:
    """As one did on a GPU whose products of integers came out infinite."""
    engine = built()
    right = proof.read(engine)
    proof.write(proof.Answers(right.samples, right.numbers - 5), engine)
    (engine / manifest.FILE).unlink()
    manifest.seal(engine, "a test")
    loaded = make().load()
    assert loaded.on_cpu
    assert re.search(r"tensorrt: .* does not say what the CPU says", loaded.fallback)
    with pytest.raises(DeviceError, match=r"up to \d+\.\d\d apart"):
        make("tensorrt").load()


def test_an_engine_brings_its_own_detector(make, built) -> None:
    """A board may have been given no more: the store has none."""
    built()
    loaded = make().load()
    assert set(loaded.detector.inputs) == {"tokens", "table"}  # see the fixture
    with pytest.raises(ModelMissing, match=r"silero-vad.*edge-runtime pull"):
        make("cpu").load()


def test_without_an_engine_the_cpu_is_used_and_it_is_said(
    make, made_up: MoonshineRecipe, own_detector, caplog
) -> None:
    with caplog.at_level(logging.WARNING):
        loaded = make().load()
    assert loaded.on_cpu
    why = f"no engine of {made_up.name} was ever built"
    assert loaded.fallback.startswith("cpu is used. tensorrt: " + why)
    assert "edge-runtime build made-up --precision fp32 --tensorrt tensorrt" in loaded.fallback
    # the other GPU device's library is not here
    assert "onnx-cuda: this onnxruntime has no CUDAExecutionProvider" in loaded.fallback
    assert f"tensorrt cannot be used, onnx-cuda is next: {why}" in caplog.text
    assert "onnx-cuda cannot be used, cpu is next" in caplog.text
    assert text(loaded)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"version": "10.7.0"}, "version"),
        ({"target": ("7.2",)}, "target"),
        ({"samples": 16_000}, "samples"),
        ({"weights": {"model.safetensors": "0" * 64}}, "weights"),
    ],
)
def test_an_engine_that_does_not_fit_is_refused_field_by_field(
    make, built, own_detector, changes, field: str
) -> None:
    built(**changes)
    loaded = make().load()
    assert loaded.on_cpu
    assert f"differs in {field}" in loaded.fallback
    assert "Run: edge-runtime build" in loaded.fallback
    with pytest.raises(EngineMismatch, match=f"differs in {field}"):
        make("tensorrt").load()


def test_an_engine_of_another_precision_is_not_taken(make, built, own_detector) -> None:
    built("fp32")
    assert "differs in precision" in make(precision="fp16").load().fallback


def test_larger_batches_need_an_engine_for_them(make, built, own_detector) -> None:
    built()
    assert "differs in rows" in make(size=Size(12, 32_000)).load().fallback


def test_an_engine_that_will_do_is_used_as_far_as_it_goes(
    make, built, own_detector, caplog
) -> None:
    built(rows=4, samples=24_000)
    with caplog.at_level(logging.WARNING):
        loaded = make(size=Size(12, 32_000), least=Size(1, 20_000)).load()
    assert loaded.device.name.startswith("tensorrt")
    assert loaded.fallback is None
    assert loaded.size == Size(4, 24_000)
    assert "the engine is used as far as it goes" in caplog.text
    assert "rows (wanted 12, found 4), samples (wanted 32000, found 24000)" in caplog.text
    assert "Run: edge-runtime build made-up --precision fp32" in caplog.text
    with pytest.raises(EngineMismatch, match=r"samples \(wanted 32000, found 24000\)"):
        make("tensorrt", size=Size(1, 32_000), least=Size(1, 24_001)).load()


def test_an_engine_that_takes_it_all_is_preferred_and_lends_no_more_than_is_wanted(
    make, built, own_detector, caplog
) -> None:
    built(rows=12, samples=48_000)
    built(rows=1, samples=24_000, built="2026-02-01T00:00:00")
    loaded = make(size=Size(8, 32_000), least=Size(1, 20_000)).load()
    assert loaded.size == Size(8, 32_000)
    assert "as far as it goes" not in caplog.text
    assert make("cpu", size=Size(8, 32_000), least=Size(1, 1)).load().size == Size(8, 32_000)


def test_files_are_cut_to_what_the_engine_takes(
    made_up_path, made_up_store, gpu, built, own_detector, monkeypatch
) -> None:
    """The cap of the settings is 16 s, the engine takes 4 s: less the padding, and a second."""

    class Ears:
        open = staticmethod(lambda: 0)
        close = staticmethod(lambda slot: None)
        hear = staticmethod(lambda slots, samples: [[0.95] * (len(samples[0]) // FRAME)])

    built(samples=64_000)
    monkeypatch.setattr(load.Loaded, "ear", lambda self, rows: Ears())
    config = Config(computing=Computing(precision="fp32", lanes=1))
    files = Transcriber(made_up_path, config=config, store=made_up_store)
    assert files.device.startswith("tensorrt")
    noise = np.random.default_rng(5).normal(0, 0.3, 16_000 * 11).astype(np.float32)
    finals = [event for event in files.transcribe([noise]) if isinstance(event, Final)]
    lengths = [final.end - final.start for final in finals]
    assert len(finals) > 4
    assert [final.reason for final in finals[:-1]] == ["cap"] * (len(finals) - 1)
    assert min(lengths[:-1]) >= 1.0
    assert max(lengths) <= 2.6
    assert finals[-1].end == 11.0
    assert files.fallback is None


def test_an_engine_that_cannot_be_opened_leaves_nothing_behind(
    make, built, own_detector, gpu: FakeGpu
) -> None:
    (built() / "encoder.plan").write_bytes(b"not a plan of this library, but as long"[:8])
    loaded = make().load()
    assert loaded.on_cpu
    assert gpu.used == 0


def test_a_device_that_is_named_fails_rather_than_falls_back(make) -> None:
    for name in ("tensorrt", "onnx-cuda", "onnx-tensorrt"):
        with pytest.raises((ModelMissing, MissingExtra)):
            make(name).load()


def test_a_model_without_text_is_refused(made_up_store: Store) -> None:
    with pytest.raises(RecipeError, match="turns no speech into text"):
        Loader("silero-vad", store=made_up_store)


def test_what_makes_no_lane_moves_on(make, built, own_detector, gpu: FakeGpu) -> None:
    built()
    loader = make()
    first = loader.load()
    tried = []

    def lanes(loaded: load.Loaded) -> str:
        tried.append(loaded)
        if not loaded.on_cpu:
            raise DeviceError("no memory for lanes", "Close something.")
        return "made"

    loaded, made = loader.made(first, lanes)
    assert made == "made"
    assert tried == [first, loaded]
    assert "tensorrt: no memory for lanes. Close something." in loaded.fallback
    assert gpu.used == 0


def test_after_a_loss_nothing_on_that_gpu_is_tried(make, built, own_detector, monkeypatch) -> None:
    built()
    loader = make()
    first = loader.load()
    opened = []
    real = load.open_device
    monkeypatch.setattr(
        load, "open_device", lambda name, *rest: opened.append(name) or real(name, *rest)
    )
    monkeypatch.setattr(first.device, "close", lambda: pytest.fail("a lost device is not closed"))
    following = loader.following(first, DeviceLost("it fell off", "Restart."))
    assert following.on_cpu
    assert set(opened) == {"cpu"}
    with pytest.raises(DeviceError, match="again"):
        loader.following(following, DeviceError("again"))


def test_all_that_is_taken_of_the_gpu_is_in_the_budget_and_under_the_cap(
    made_up_path, made_up_store, built, own_detector, gpu: FakeGpu, monkeypatch
) -> None:
    """Context, graphs, weights, what calls work in, rings: against what the card itself says."""
    cuda.install_nvml(monkeypatch, gpu)
    gpu.overhead.update(context=5 << 20, graph=1 << 16)
    built()

    def opened(memory_mb: int) -> load.Loaded:
        computing = Computing(precision="fp32", lanes=1, memory_mb=memory_mb)
        loader = Loader(made_up_path, "auto", SIZE, computing=computing, store=made_up_store)

        def lanes(loaded: load.Loaded) -> tuple[Runner, np.ndarray]:
            runner = Runner(loaded.chain, loaded.size)
            runner.warm()
            return runner, ring_memory(loaded.device, 480_000)

        loaded, made.value = loader.made(loader.load(), lanes)
        return loaded

    made = SimpleNamespace(value=None)
    loaded = opened(0)
    kinds = loaded.budget.by_kind
    graphs = len(gpu.executables)
    assert graphs > 4
    assert kinds["driver"] == (5 << 20) + (graphs << 16)
    assert kinds["pinned"] > 480_000 * 4
    assert min(kinds[kind] for kind in ("device", "scratch", "engine")) > 0
    assert loaded.budget.taken - kinds["pinned"] == gpu.used
    taken = loaded.budget.taken >> 20
    made.value = None
    loaded.device.close()
    assert gpu.used == 0
    for memory_mb in (4, 6, taken - 2, taken):  # rounded down: never enough
        short = opened(memory_mb)
        assert short.on_cpu
        assert f"of the {memory_mb << 20} that are allowed" in short.fallback
        assert gpu.used == 0
    enough = opened(taken + 1)
    assert not enough.on_cpu
    assert enough.budget.taken <= (taken + 1) << 20


def test_memory_is_counted_from_when_lanes_are_warm(make, built, own_detector) -> None:
    built()
    loaded = make().load()
    text(loaded)
    assert loaded.budget.since_warm > 0
    loaded.warmed()
    assert loaded.budget.since_warm == 0
    assert make("cpu").load().budget is None


@pytest.fixture
def quantised(made_up, made_up_store, built, calibrated, made_up_scheme):
    """An engine that says it is of integers, of the variant that is active or the one given."""

    def build(variant: Variant | None = None, **changes: object) -> Variant:
        variant = variant or read(calibrated(made_up_scheme))
        info, hashes = variant.info, made_up_store.hashes(made_up)
        graphs = graphs_fingerprint(made_up, "int8", hashes.values(), info.scheme)
        told = {"scheme": info.scheme, "graphs": graphs, "variant": info.fingerprint}
        built(**{"precision": "int8", **told, **changes})
        return variant

    return build


def test_a_cpu_runs_the_variant_that_is_active(
    make, calibrated, made_up_scheme, own_detector, caplog
) -> None:
    full = make("cpu", "auto").load()
    assert (full.served.precision, full.served.variant) == ("fp32", None)
    folder = calibrated(made_up_scheme, forced=True)
    loaded = make("cpu", "auto").load()
    assert (loaded.served.precision, loaded.served.variant) == ("int8", folder.name)
    assert loaded.served.forced
    assert "made-up" in caplog.text
    assert "serves although its gate refused it: it was forced" in caplog.text
    assert loaded.chain.table.dtype == np.int8
    assert text(loaded)
    assert make("cpu", "int8").load().served == loaded.served
    for precision in ("fp16", "fp32"):
        assert make("cpu", precision).load().served.precision == "fp32"


def test_a_variant_that_changes_nothing_says_the_same(make, calibrated, own_detector) -> None:
    wanted = text(make("cpu", "fp32").load())
    calibrated()
    loaded = make("cpu", "auto").load()
    assert loaded.served.variant is not None
    assert text(loaded) == wanted


def test_a_variant_that_does_not_fit_gives_way_to_full_precision_aloud(
    make, calibrated, own_detector, monkeypatch, caplog
) -> None:
    calibrated()
    monkeypatch.setattr("edge_runtime.engines.store._quantiser", lambda: "another")
    loaded = make("cpu", "auto").load()
    assert (loaded.served.precision, loaded.served.variant) == ("fp32", None)
    assert "differs in graphs (exported by another" in str(loaded.served.unused)
    assert "Run: edge-runtime calibrate made-up --audio DIR" in str(loaded.served.unused)
    assert f"the calibrated model is not used: {loaded.served.unused}" in caplog.text
    with pytest.raises(EngineMismatch, match="differs in graphs"):
        make("cpu", "int8").load()


def test_integers_that_are_asked_for_and_not_there_are_an_error(make, own_detector) -> None:
    with pytest.raises(ModelMissing, match=r"no calibrated made-up is active\. Run: .*calibrate"):
        make("cpu", "int8").load()


def test_a_gpu_runs_the_engine_of_the_variant_that_is_active(make, quantised, own_detector) -> None:
    variant = quantised()
    loaded = make(precision="auto").load()
    assert loaded.kind == "tensorrt"
    assert (loaded.served.precision, loaded.served.variant) == ("int8", variant.info.fingerprint)
    assert loaded.served.unused is None
    assert loaded.fallback is None


def test_without_its_engine_a_gpu_computes_in_full_precision_aloud(
    make, built, quantised, calibrated, made_up_scheme, own_detector, caplog
) -> None:
    built("fp16")
    quantised(scheme="0" * 64)  # of another variant
    loaded = make(precision="auto").load()
    assert (loaded.kind, loaded.served.precision) == ("tensorrt", "fp16")
    assert "differs in scheme" in str(loaded.served.unused)
    build = "edge-runtime build made-up --precision int8 --tensorrt tensorrt"
    assert build in str(loaded.served.unused)
    assert "the calibrated model is not used: " in caplog.text
    assert "differs in scheme" in str(make(precision="int8").load().fallback)


def test_with_no_engine_at_all_the_next_device_runs_the_variant(
    make, calibrated, own_detector
) -> None:
    name = calibrated().name
    loaded = make(precision="auto").load()
    assert (loaded.kind, loaded.served.variant) == ("cpu", name)
    assert "edge-runtime build made-up --precision int8" in str(loaded.fallback)


def test_an_engine_that_was_brought_serves_where_integers_are_asked_for(
    make, quantised, made_up_store, own_detector
) -> None:
    variant = quantised(forced=True)
    shutil.rmtree(variant.folder)
    (made_up_store.root / "made-up" / "active.json").unlink()
    served = make(precision="int8").load().served
    assert (served.variant, served.forced) == (variant.info.fingerprint, True)


def test_a_variant_on_trial_is_that_or_nothing(
    make, built, quantised, calibrated, made_up_scheme, own_detector
) -> None:
    built("fp16")
    active = quantised()
    trial = read(calibrated(candidate=True))
    loaded = make("cpu", "fp32", trial=trial).load()
    assert loaded.served.variant == trial.info.fingerprint
    with pytest.raises(EngineMismatch) as caught:
        make("tensorrt", "fp32", trial=trial).load()
    build = f"build made-up --precision int8 --variant {trial.info.fingerprint} --tensorrt"
    assert build in str(caught.value)
    quantised(trial)
    loaded = make("tensorrt", trial=trial).load()
    assert loaded.served.variant == trial.info.fingerprint
    assert make(precision="auto").load().served.variant == active.info.fingerprint
